"""What stages that train a scalar head share: a copy of the policy's body, the loop over batches, what is written.

The body starts as the policy is when the stage begins, from its float32 masters, and is a copy: the policy goes on
unchanged. Held-out items are measured before the first step, after each checkpoint and at the end. What comes out is a
folder of the stage in the run's `reward/`: a Hugging Face folder of the body, with the head beside it.
Not covered: several ranks.
"""

import copy
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic import Field
from torch import Tensor

from burnish.core.run_folder import whole_folder
from burnish.core.seeds import derive
from burnish.learner.packing import Row
from burnish.learner.scalar import ScalarModel
from burnish.models.heads import Kind, new_head, save_head
from burnish.models.lora import trainable
from burnish.stages import training
from burnish.stages.export import write_masters
from burnish.stages.order import epochs
from burnish.stages.progress import progress_bar
from burnish.stages.session import Session
from burnish.stages.updates import Updates

I = TypeVar("I")  # noqa: E741  an item of data


class ScalarUpdates(Updates):
    """Options of such a stage, beside its data."""

    num_epochs: int = Field(1, ge=1)
    batch_size: int = Field(16, ge=1)
    """Lines of the data an update."""
    learning_rate: float = Field(1e-5, gt=0)
    checkpoint_every: int = Field(20, ge=1)
    """Updates between checkpoints."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task(Generic[I]):
    """What is learned: the rows of some items, the sum of their losses from the rows' outputs, and what it is over."""

    rows: Callable[[Sequence[I]], list[Row]]
    loss: Callable[[Sequence[I], Sequence[Tensor]], Tensor]
    weight: Callable[[Sequence[I]], float]
    measure: Callable[[Sequence[I], Sequence[Tensor]], Mapping[str, float]]
    """Metrics of held-out items, from the rows' outputs."""


def copied(session: Session, kind: Kind, *, num_outputs: int = 1) -> ScalarModel:
    """A fresh head on a copy of the policy's body."""
    body = copy.deepcopy(session.loaded.model)
    head = new_head(body, kind, num_outputs=num_outputs, seed=derive(session.recipe.seed, "reward model"))
    model = ScalarModel(body, head, trainable(body), max_pack_tokens=session.recipe.learner.max_pack_tokens)
    model.weights.adopt(session.own_policy.snapshot())  # what the body computes in may be rounded
    return model


def train(
    session: Session,
    config: ScalarUpdates,
    model: ScalarModel,
    task: Task[I],
    items: Sequence[I],
    held_out: Sequence[I],
) -> dict[str, Any]:
    """Train the model on the items and write it; resumes after the last checkpoint."""
    model.weights.reset_optimiser(config.optimiser_config())
    batches = epochs(items, config.num_epochs, config.batch_size, session.train_seed)
    first = training.resume(session, model.weights)
    with progress_bar(session.console) as progress:
        bar = progress.add_task(session.stage_name, total=len(batches), completed=first, note="")
        for step in range(first, len(batches)):
            measured = _measure(model, task, held_out) if step % config.checkpoint_every == 0 else {}
            loss = _step(session, config, model, task, batches, step, measured)
            progress.update(bar, advance=1, note=f"loss {loss:.3f}")
            if (step + 1) % config.checkpoint_every == 0:
                training.save(session, step + 1, model.weights)
    model.weights.adopt_average()
    measured = _measure(model, task, held_out)
    session.metrics.log(len(batches), session.stage_name, **measured)
    return {"folder": _write(session, model)} | measured


def _step(
    session: Session, config: ScalarUpdates, model: ScalarModel, task: Task[I], batches: Sequence[Sequence[I]],
    step: int, measured: Mapping[str, float],
) -> float:  # fmt: skip
    started, items = time.monotonic(), batches[step]
    value = model.forward_backward(task.rows(items), lambda outputs: task.loss(items, outputs), task.weight(items))
    rate = config.rate(step, len(batches))
    norm = model.weights.step(rate)
    session.metrics.log(
        step, session.stage_name, loss=value, grad_norm=norm, learning_rate=rate, train_s=time.monotonic() - started,
        **measured,
    )  # fmt: skip
    session.heartbeat()
    return value


def _measure(model: ScalarModel, task: Task[I], items: Sequence[I]) -> dict[str, float]:
    if not items:
        return {}
    return {f"eval/{name}": value for name, value in task.measure(items, model.outputs(task.rows(items))).items()}


def _write(session: Session, model: ScalarModel) -> str:
    folder = session.folder.path / "reward" / session.stage_name
    names = dict(session.policy.masters)
    with whole_folder(folder) as temporary:
        write_masters(session.loaded, {n: m for n, m in model.weights.masters.items() if n in names}, temporary)
        save_head(model.head, temporary)
    return str(folder)
