"""A policy whose weights, gradients and moments lie in shares on several ranks (`fully_shard`, FSDP2).

Each layer is gathered when it runs and its gradients are summed, not averaged, since the loss is divided by the
weight of all ranks' rows. Masters are the float32 shares themselves; `compute_dtype` is what layers run in.
Ranks run as many packs as the one that has most, so that no gathering waits for ever.

Covered: data parallel on one mesh dimension; checkpoints are whole, so that a run may go on with another number of
ranks. Not covered: an engine on the same weights (it would have to gather them), Muon (its product needs whole
matrices), 8-bit moments' checkpoints.
"""

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from transformers import PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer

from burnish.learner.policy import Policy
from burnish.learner.ranks import Group
from burnish.models.forward import PackedForward
from burnish.models.lora import trainable


def sharded_policy(
    model: PreTrainedModel,
    mesh: DeviceMesh,
    *,
    compute_dtype: torch.dtype = torch.float32,
    max_pack_tokens: int = 2048,
) -> Policy:
    """Share a float32 model out over a mesh; what requires gradients trains. All ranks must call it alike."""
    forward = PackedForward(model)
    precision = MixedPrecisionPolicy(param_dtype=compute_dtype, reduce_dtype=torch.float32)
    for module in model.modules():
        if isinstance(module, GradientCheckpointingLayer):
            fully_shard(module, mesh=mesh, mp_policy=precision)
    # Else the root would keep the gathered weights of a forward without a backward, and not see what is written later.
    fully_shard(forward, mesh=mesh, mp_policy=precision, reshard_after_forward=True)
    for module in forward.modules():
        if isinstance(module, FSDPModule):
            module.set_gradient_divide_factor(1.0)
            module.set_force_sum_reduction_for_comms(True)
    ranks = Group(torch.device(mesh.device_type))
    return Policy(model, trainable(model), max_pack_tokens=max_pack_tokens, ranks=ranks, forward=forward)
