"""Reward model: train a head on the policy's body to score the preferred reply of a pair higher.

Lines of the data are those of stage `preference`; a line's `margin` enters the loss. What comes out is a folder of the
stage in the run's `reward/`, for example `reward/0-reward_model`: a Hugging Face folder of the body, with
`head.safetensors` beside it (`models.heads.load_head`). Held-out metrics are `eval/accuracy`, `eval/margin`, and
`eval/reward`, the mean score, which centring holds near 0. Labels a step are those of stage `process_reward_model`.
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any, NamedTuple

import torch
from pydantic import Field
from torch import Tensor

from burnish.learner.packing import Row
from burnish.learner.scalar import ended
from burnish.objectives import bradley_terry
from burnish.objectives.pairs import Pair, margin
from burnish.stages import scalar_training
from burnish.stages.preference_data import PairLine, open_split, pair_rows, read_split
from burnish.stages.scalar_training import ScalarUpdates
from burnish.stages.session import Session


class Config(ScalarUpdates):
    """Options of the stage."""

    data: str
    """A JSONL file: lines with prompt, chosen, rejected, and margin where it is known."""
    eval_data: str = ""
    """Lines of the same kind that never train."""
    centering: float = Field(0.0, ge=0)
    """Holds the scores of a pair around 0; 0.01 is usual."""


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
    task = scalar_training.Task(
        rows=_rows, loss=partial(_loss, centering=config.centering), weight=len, measure=_measure
    )
    return scalar_training.train(session, config, scalar_training.copied(session, "reward"), task, train, held_out)


def _item(session: Session, line: PairLine) -> _Item:
    chosen, rejected = pair_rows(session.means.chat, line)
    return _Item(ended(chosen), ended(rejected), line.margin)


def _loss(items: Sequence[_Item], outputs: Sequence[Tensor], *, centering: float) -> Tensor:
    rewards = _rewards(outputs)
    margin_B = torch.tensor([item.margin for item in items]).to(rewards.chosen_B)
    return bradley_terry.of_rewards(rewards, margin_B=margin_B, centering=centering).sum()


def _measure(items: Sequence[_Item], outputs: Sequence[Tensor]) -> dict[str, float]:
    rewards = _rewards(outputs)
    ahead_B = margin(rewards)
    return {
        "accuracy": float((ahead_B > 0).float().mean()),
        "margin": float(ahead_B.mean()),
        "reward": float(torch.cat([rewards.chosen_B, rewards.rejected_B]).mean()),
    }


def _rows(items: Sequence[_Item]) -> list[Row]:
    return [row for item in items for row in (item.chosen, item.rejected)]


def _rewards(outputs: Sequence[Tensor]) -> Pair:
    rewards_B = torch.cat(list(outputs))[:, 0]
    return Pair(chosen_B=rewards_B[0::2], rejected_B=rewards_B[1::2])
