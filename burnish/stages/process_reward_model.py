"""Process reward model: train a head on the policy's body to say of each step of a reply what class it is of.

Let's Verify Step by Step, https://arxiv.org/abs/2305.20050, section 2.6: cross entropy of the label at the last token
of each step. A line has `prompt`, `steps` (texts) and `labels` (one class a step: 0 is wrong, 1 right, unless
`num_classes` says more). The hidden state behind a step's last token has seen the prompt and all steps up to it.
Steps are put into tokens one by one, `separator` behind each, so that a step ends with a token of its own; a policy
may put the same text into other tokens where two steps meet. What comes out is as of stage `reward_model`, with a
head of `num_classes` outputs. Held-out metrics are `eval/loss`, `eval/accuracy` (of steps), and `eval/first_error`:
the share of replies whose first step of class 0 is found, which for a reply without one means that none is claimed.
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor
from torch.nn.functional import cross_entropy

from burnish.chat.template import Chat
from burnish.core.errors import ConfigError
from burnish.core.prompted import Prompted
from burnish.learner.packing import Row
from burnish.stages import scalar_training
from burnish.stages.preference_data import open_split, read_split
from burnish.stages.scalar_training import ScalarUpdates
from burnish.stages.session import Session


class StepsLine(Prompted):
    """A reply in steps, and the class of each."""

    steps: tuple[str, ...] = Field(min_length=1)
    labels: tuple[int, ...]

    @model_validator(mode="before")
    @classmethod
    def _lists_are_tuples(cls, data: Any) -> Any:
        """JSON has lists alone."""
        if not isinstance(data, dict):
            return data
        return {
            key: tuple(value) if key in ("steps", "labels") and isinstance(value, list) else value
            for key, value in data.items()
        }

    @model_validator(mode="after")
    def _each_step_has_a_label(self) -> Self:
        if len(self.labels) != len(self.steps):
            raise ValueError(f"{len(self.steps)} steps have {len(self.labels)} labels; give one label a step")
        if not all(self.steps):
            raise ValueError("a step is empty; leave it and its label out")
        return self


class Config(ScalarUpdates):
    """Options of the stage."""

    data: str
    """A JSONL file: lines with prompt, steps, labels."""
    eval_data: str = ""
    """Lines of the same kind that never train."""
    num_classes: int = Field(2, ge=2)
    separator: str = Field("\n", min_length=1)
    """Put behind each step."""


class Item(NamedTuple):
    """A reply whose steps are marked, and the class of each step."""

    row: Row
    labels: tuple[int, ...]


def check_data(config: Config, never_train: AbstractSet[str]) -> None:
    """Read the lines, before anything runs."""
    split = read_split(config.data, config.eval_data, StepsLine, never_train)
    for path, lines in ((config.data, split.train), (config.eval_data, split.held_out)):
        largest = max((max(line.labels) for line in lines), default=0)
        least = min((min(line.labels) for line in lines), default=0)
        if not 0 <= least <= largest < config.num_classes:
            raise ConfigError(
                f"{path}: labels lie from {least} to {largest}, and num_classes is {config.num_classes}, so that they "
                f"may lie from 0 to {config.num_classes - 1}; change the labels, or num_classes"
            )


def run(session: Session, config: Config) -> dict[str, Any]:
    """Train the model and write it; resumes after the last checkpoint."""
    split = open_split(session, config.data, config.eval_data, StepsLine)
    train, held_out = (
        [item(session.means.chat, line, config.separator) for line in lines] for lines in (split.train, split.held_out)
    )
    task = scalar_training.Task(rows=_rows, loss=_loss, weight=_num_steps, measure=_measure)
    model = scalar_training.copied(session, "classes", num_outputs=config.num_classes)
    return scalar_training.train(session, config, model, task, train, held_out)


def item(chat: Chat, line: StepsLine, separator: str) -> Item:
    """Put a line into tokens; marked are the places behind each step's last token."""
    num_end = len(chat.reply_ids(""))
    token_ids, ends = list(chat.prompt_ids(line.messages)), list[int]()
    for step in line.steps:
        token_ids += chat.reply_ids(step + separator)[:-num_end]
        ends.append(len(token_ids))
    marked = set(ends)
    return Item(
        Row(token_ids=(*token_ids, 0), was_sampled=tuple(place in marked for place in range(len(token_ids) + 1))),
        line.labels,
    )


def _rows(items: Sequence[Item]) -> list[Row]:
    return [given.row for given in items]


def _num_steps(items: Sequence[Item]) -> int:
    return sum(len(given.labels) for given in items)


def _loss(items: Sequence[Item], outputs: Sequence[Tensor]) -> Tensor:
    labels_N = torch.tensor([label for given in items for label in given.labels])
    outputs_N_K = torch.cat(list(outputs))
    return cross_entropy(outputs_N_K, labels_N.to(outputs_N_K.device), reduction="sum")


def _measure(items: Sequence[Item], outputs: Sequence[Tensor]) -> dict[str, float]:
    found = [outputs_N_K.argmax(-1).tolist() for outputs_N_K in outputs]
    pairs = list(zip(found, (list(given.labels) for given in items), strict=True))
    num_right = sum(ours == theirs for one, other in pairs for ours, theirs in zip(one, other, strict=True))
    return {
        "loss": float(_loss(items, outputs)) / _num_steps(items),
        "accuracy": num_right / _num_steps(items),
        "first_error": sum(_first_error(one) == _first_error(other) for one, other in pairs) / len(pairs),
    }


def _first_error(labels: Sequence[int]) -> int:
    return labels.index(0) if 0 in labels else len(labels)
