"""Two ranks that hold the weights in shares make the updates of one rank."""

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from burnish.learner.batch import Batch
from burnish.learner.optimiser import OptimiserConfig
from burnish.learner.packing import Row
from burnish.learner.policy import Policy
from burnish.models.lora import add_lora, trainable
from burnish.objectives import dapo
from tests.fakes import tiny_loaded

NUM_STEPS = 10


def batch(step: int, rank: int | None) -> Batch:
    """Rows of unequal lengths; rank 0 has one, rank 1 the other five, in several packs."""
    rows = [
        Row(
            token_ids=tuple((7 * step + 3 * number + place) % 250 for place in range(20 + 9 * number)),
            was_sampled=(False,) * 12 + (True,) * (8 + 9 * number),
            advantage=(-1.0) ** number * (1 + number / 4),
            rollout_logprobs=(0.0,) * 12 + (-5.0,) * (8 + 9 * number),
        )
        for number in range(6)
    ]
    mine = rows if rank is None else rows[:1] if rank == 0 else rows[1:]
    return Batch(rows=mine, aggregate="token_mean", max_length=8)


def train(policy: Policy, rank: int | None, steps: range) -> list[dict[str, float]]:
    if not steps.start:
        policy.reset_optimiser(OptimiserConfig(max_grad_norm=0.5, weight_decay=0.1))
    log = []
    for step in steps:
        metrics = policy.forward_backward(batch(step, rank), lambda s: dapo.loss(s, dapo.Config()))
        log.append(metrics | {"grad_norm": policy.optim_step(1e-3)})
    return log


def model(lora: bool) -> torch.nn.Module:
    loaded = tiny_loaded().model
    if lora:
        add_lora(loaded, rank=4, alpha=8, targets="all-linear", seed=3)
    else:
        loaded.requires_grad_(True)
    return loaded


def rank_main(rank: int, folder: Path, lora: bool) -> None:
    """What a child process runs: half of the steps, a checkpoint, the other half by a policy that resumed from it."""
    from torch import distributed
    from torch.distributed.device_mesh import init_device_mesh

    from burnish.learner.sharding import sharded_policy

    torch.set_num_threads(1)
    distributed.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (2,))
    first = sharded_policy(model(lora), mesh, max_pack_tokens=60)
    log = train(first, rank, range(NUM_STEPS // 2))
    (folder / "half").mkdir(exist_ok=True)
    distributed.barrier()
    first.save(folder / "half", with_optimiser=True)
    distributed.barrier()
    second = sharded_policy(model(lora), mesh, max_pack_tokens=60)
    second.reset_optimiser(OptimiserConfig(max_grad_norm=0.5, weight_decay=0.1))
    second.load(folder / "half")
    log += train(second, rank, range(NUM_STEPS // 2, NUM_STEPS))
    scored = second.logprobs(batch(0, rank).rows, 1.0)
    second.save(folder, with_optimiser=False)
    (folder / f"log-{rank}.json").write_text(json.dumps({"log": log, "scored": [x.tolist() for x in scored]}))
    distributed.destroy_process_group()


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


def start(code: str, environment: dict[str, str], errors: Path) -> subprocess.Popen[bytes]:
    with errors.open("w") as file:
        return subprocess.Popen([sys.executable, "-c", code], env={**os.environ, **environment}, stderr=file)


def ended_well(children: list[subprocess.Popen[bytes]]) -> bool:
    """Wait for all; where one fails, the others would wait for it for ever."""
    while any(child.poll() is None for child in children) and not any(child.poll() for child in children):
        time.sleep(0.05)
    for child in children:
        child.kill()
        child.wait()
    return all(child.returncode == 0 for child in children)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("lora", [False, True])
def test_two_ranks_make_the_updates_of_one(lora: bool, tmp_path: Path) -> None:
    code = (
        "from pathlib import Path; from tests.learner.test_sharding import rank_main; "
        f"rank_main({{}}, Path({str(tmp_path)!r}), {lora})"
    )
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2", "OMP_NUM_THREADS": "1"}
    children = [start(code.format(rank), {**shared, "RANK": str(rank)}, tmp_path / f"error-{rank}") for rank in (0, 1)]
    assert ended_well(children), "\n".join((tmp_path / f"error-{rank}").read_text() for rank in (0, 1))

    alone = Policy(plain := model(lora), trainable(plain))
    expected = train(alone, None, range(NUM_STEPS))
    logs = [json.loads((tmp_path / f"log-{rank}.json").read_text()) for rank in (0, 1)]
    assert logs[0]["log"] == logs[1]["log"]
    for ours, theirs in zip(logs[0]["log"], expected, strict=True):
        assert ours == pytest.approx(theirs, abs=1e-5)
    saved = load_file(tmp_path / "masters.safetensors")
    assert saved.keys() == alone.masters.keys()
    for name, master in alone.masters.items():
        torch.testing.assert_close(saved[name], master.detach(), atol=1e-5, rtol=0, msg=name)
    scored = [torch.tensor(one) for log in logs for one in log["scored"]]
    for one, two in zip(scored, alone.logprobs(batch(0, None).rows, 1.0), strict=True):
        torch.testing.assert_close(one, two, atol=1e-4, rtol=0)
