"""A body with a scalar head: values of states, rewards of replies, classes of tokens.

It reads the hidden state from which each marked token would be predicted, so it packs as a policy does. A value
belongs to the state before a sampled token: mark the sampled tokens. A reward belongs to a whole reply: `ended` adds
a token to it, so that the last token of the reply is what is read.

A loss sees the outputs of the whole batch, in the rows' order, whatever the packing: pairs of replies may lie in
different packs. Where there are several packs, the outputs are computed once without gradients, the loss is
differentiated with respect to them, and each pack then runs again with its share (GradCache,
https://arxiv.org/abs/2101.06983, section 3.2). It returns a sum, and is divided once by `global_weight`.
Not covered: several ranks.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from burnish.learner.packing import Pack, Row, pack
from burnish.learner.weights import Weights
from burnish.models.forward import hidden_states
from burnish.models.heads import ScalarHead
from burnish.models.parameters import hidden_matrices

OutputLoss = Callable[[Sequence[Tensor]], Tensor]
"""From each row's outputs `[marked tokens, num_outputs]` to a sum."""


def ended(row: Row) -> Row:
    """The row with only a place behind its last token marked: what is read there has seen all of it."""
    return replace(
        row,
        token_ids=(*row.token_ids, 0),
        was_sampled=(*(False for _ in row.token_ids), True),
        rollout_logprobs=None,
    )


class ScalarModel:
    """Body, head and the weights of both that train; `weights` moves and saves them."""

    def __init__(
        self,
        model: PreTrainedModel,
        head: ScalarHead,
        parameters: Mapping[str, nn.Parameter],
        *,
        max_pack_tokens: int = 2048,
    ) -> None:
        self.model, self.head = model, head
        self.weights = Weights({**parameters, **dict(head.named_parameters())}, matrices=hidden_matrices(model))
        self._max_pack_tokens = max_pack_tokens

    @torch.no_grad()
    def outputs(self, rows: Sequence[Row]) -> list[Tensor]:
        """Each row's outputs `[marked tokens, num_outputs]`."""
        read: dict[int, Tensor] = {}
        for piece in pack(rows, self._max_pack_tokens):
            read.update(self._by_row(rows, piece))
        return [read[index] for index in range(len(rows))]

    def forward_backward(self, rows: Sequence[Row], loss: OutputLoss, global_weight: float) -> float:
        """Add the gradient of `loss / global_weight` to the masters'; return the loss."""
        pieces = list(pack(rows, self._max_pack_tokens))
        if len(pieces) == 1:
            read = self._by_row(rows, pieces[0])
            value = loss([read[index] for index in range(len(rows))]) / global_weight
            value.backward()
        else:
            outputs = [output.requires_grad_(True) for output in self.outputs(rows)]
            value = loss(outputs) / global_weight
            value.backward()
            for piece in pieces:
                self._push(rows, piece, outputs)
        self.weights.take_gradients()
        return float(value.detach())

    def _push(self, rows: Sequence[Row], piece: Pack, outputs: Sequence[Tensor]) -> None:
        """Run a pack again, and send back through it what the loss said of its outputs."""
        read = self._by_row(rows, piece)
        pairs = [(read[i], grad) for i in piece.row_indices if (grad := outputs[i].grad) is not None]
        if pairs:
            torch.autograd.backward([output for output, _ in pairs], [grad for _, grad in pairs])

    def _by_row(self, rows: Sequence[Row], piece: Pack) -> dict[int, Tensor]:
        device = self.model.device
        hidden_T_D = hidden_states(self.model, piece.token_ids_T.to(device), piece.positions_T.to(device), piece.layout)
        outputs_N_K = self.head(hidden_T_D[piece.predictor_N.to(device)])
        lengths = [rows[index].num_trained for index in piece.row_indices]
        return dict(zip(piece.row_indices, outputs_N_K.split(lengths), strict=True))
