"""Reward model: train a head on the policy's body to score the preferred reply of a pair higher.

The body starts as the policy is when the stage begins, and is a copy: the policy goes on unchanged. Lines of the data
are those of stage `preference`; a line's `margin` enters the loss. What comes out is a folder of the stage in the
run's `reward/`, for example `reward/0-reward_model`: a Hugging Face folder of the body, with `head.safetensors`
beside it (`models.heads.load_head`). Held-out pairs are measured before the first step, after each checkpoint and at
the end: `eval/accuracy`, `eval/margin`, and `eval/reward`, the mean score, which centring holds near 0. Not covered:
labels a token, several ranks.
"""

import copy
import time
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple

import torch
from pydantic import Field
from torch import Tensor

from burnish.core.run_folder import whole_folder
from burnish.core.seeds import derive
from burnish.learner.packing import Row
from burnish.learner.scalar import ScalarModel, ended
from burnish.models.heads import new_head, save_head
from burnish.models.lora import trainable
from burnish.objectives import bradley_terry
from burnish.objectives.pairs import Pair, margin
from burnish.stages import training
from burnish.stages.export import write_masters
from burnish.stages.order import epochs
from burnish.stages.preference_data import PairLine, open_split, pair_rows, read_split
from burnish.stages.progress import progress_bar
from burnish.stages.session import Session
from burnish.stages.updates import Updates


class Config(Updates):
    """Options of the stage."""

    data: str
    """A JSONL file: lines with prompt, chosen, rejected, and margin where it is known."""
    eval_data: str = ""
    """Lines of the same kind that never train."""
    centering: float = Field(0.0, ge=0)
    """Holds the scores of a pair around 0; 0.01 is usual."""
    num_epochs: int = Field(1, ge=1)
    batch_size: int = Field(16, ge=1)
    """Pairs an update."""
    learning_rate: float = Field(1e-5, gt=0)
    checkpoint_every: int = Field(20, ge=1)
    """Updates between checkpoints."""


class _Item(NamedTuple):
    chosen: Row
    rejected: Row
    margin: float


def check_data(config: Config, never_train: AbstractSet[str]) -> None:
    """Read the lines, before anything runs."""
    read_split(config.data, config.eval_data, PairLine, never_train)


def run(session: Session, config: Config) -> dict[str, Any]:
    """Train the reward model and write it; resumes after the last checkpoint."""
    split = open_split(session, config.data, config.eval_data, PairLine)
    train, held_out = ([_item(session, line) for line in lines] for lines in (split.train, split.held_out))
    model = _scalar_model(session)
    model.weights.reset_optimiser(config.optimiser_config())
    batches = epochs(train, config.num_epochs, config.batch_size, session.train_seed)
    first = training.resume(session, model.weights)
    with progress_bar(session.console) as progress:
        bar = progress.add_task("reward model", total=len(batches), completed=first, note="")
        for step in range(first, len(batches)):
            measured = _measure(model, held_out) if step % config.checkpoint_every == 0 else {}
            loss = _step(session, config, model, batches[step], step, len(batches), measured)
            progress.update(bar, advance=1, note=f"loss {loss:.3f}")
            if (step + 1) % config.checkpoint_every == 0:
                training.save(session, step + 1, model.weights)
    model.weights.adopt_average()
    measured = _measure(model, held_out)
    session.metrics.log(len(batches), session.stage_name, **measured)
    return {"folder": _write(session, model)} | measured


def _item(session: Session, line: PairLine) -> _Item:
    chosen, rejected = pair_rows(session.means.chat, line)
    return _Item(ended(chosen), ended(rejected), line.margin)


def _scalar_model(session: Session) -> ScalarModel:
    body = copy.deepcopy(session.loaded.model)
    head = new_head(body, "reward", seed=derive(session.recipe.seed, "reward model"))
    model = ScalarModel(body, head, trainable(body), max_pack_tokens=session.recipe.learner.max_pack_tokens)
    model.weights.adopt(session.policy.snapshot())  # what the body computes in may be rounded
    return model


def _step(
    session: Session, config: Config, model: ScalarModel, items: Sequence[_Item], step: int, num_steps: int,
    measured: dict[str, float],
) -> float:  # fmt: skip
    started = time.monotonic()
    margin_B = torch.tensor([item.margin for item in items])

    def loss(outputs: Sequence[Tensor]) -> Tensor:
        rewards = _rewards(outputs)
        return bradley_terry.of_rewards(
            rewards, margin_B=margin_B.to(rewards.chosen_B), centering=config.centering
        ).sum()

    value = model.forward_backward(_rows(items), loss, len(items))
    rate = config.rate(step, num_steps)
    norm = model.weights.step(rate)
    session.metrics.log(
        step, session.stage_name, loss=value, grad_norm=norm, learning_rate=rate, train_s=time.monotonic() - started,
        **measured,
    )  # fmt: skip
    session.heartbeat()
    return value


def _measure(model: ScalarModel, items: Sequence[_Item]) -> dict[str, float]:
    if not items:
        return {}
    rewards = _rewards(model.outputs(_rows(items)))
    ahead_B = margin(rewards)
    return {
        "eval/accuracy": float((ahead_B > 0).float().mean()),
        "eval/margin": float(ahead_B.mean()),
        "eval/reward": float(torch.cat([rewards.chosen_B, rewards.rejected_B]).mean()),
    }


def _rows(items: Sequence[_Item]) -> list[Row]:
    return [row for item in items for row in (item.chosen, item.rejected)]


def _rewards(outputs: Sequence[Tensor]) -> Pair:
    rewards_B = torch.cat(list(outputs))[:, 0]
    return Pair(chosen_B=rewards_B[0::2], rejected_B=rewards_B[1::2])


def _write(session: Session, model: ScalarModel) -> str:
    folder = session.folder.path / "reward" / session.stage_name
    names = dict(session.policy.masters)
    with whole_folder(folder) as temporary:
        write_masters(session.loaded, {n: m for n, m in model.weights.masters.items() if n in names}, temporary)
        save_head(model.head, temporary)
    return str(folder)
