"""The policy of a run whose learner is in several ranks: they train it, and the run's own copy follows.

The own copy is what the engine samples from and what is exported; after each update the ranks send it what has moved,
and its fingerprint must be theirs. Rows go to the ranks in runs of about as many tokens, so that replies to one prompt
mostly stay together. Two ranks make the updates of one process, but for rounding.

Covered: what stages `sft`, `offline` and `rl` ask of a policy; losses that pickle. Not covered: a value model beside
it, distributions of a teacher, checkpoints in a folder that only some of the hosts see.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TypeVar

from torch import Tensor, nn
from transformers import PreTrainedModel

from burnish.core.errors import ConfigError
from burnish.learner.batch import Batch, shared_out, shares
from burnish.learner.optimiser import OptimiserConfig
from burnish.learner.packing import Row
from burnish.learner.policy import LossFunction, Noting, Policy, Scorer
from burnish.learner.ranked import Rank, RankedLearner
from burnish.models.fused_head import TopTokens
from burnish.runtime.transport import Carrier, Receiver

R = TypeVar("R")


class RankedPolicy:
    """See the module's docstring, and `Policy` for what each method is."""

    def __init__(self, own: Policy, learner: RankedLearner, carrier: Carrier) -> None:
        """The ranks must have opened the very weights of `own`."""
        self._own, self._learner, self._carrier = own, learner, carrier
        self._receiver = Receiver(own.masters)
        before = self._receiver.fingerprint
        self._follow()
        if self._receiver.fingerprint != before:
            raise ConfigError(
                "the learner's ranks opened other weights than the run: model.name must be the same model on all hosts"
            )

    @property
    def model(self) -> PreTrainedModel:
        """The run's own copy."""
        return self._own.model

    @property
    def version(self) -> int:
        """How often the weights have moved."""
        return self._own.version

    @property
    def masters(self) -> Mapping[str, nn.Parameter]:
        """The float32 weights of the run's own copy."""
        return self._own.masters

    def reset_optimiser(self, config: OptimiserConfig) -> None:
        """See `Policy`."""
        self._do(partial(Policy.reset_optimiser, config=config))

    def forward_backward(self, batch: Batch, loss: LossFunction) -> dict[str, float]:
        """See `Policy`; the loss must pickle."""
        parts = shared_out(batch, self._learner.num_ranks)
        computed = self._learner.each([partial(Rank.forward_backward, batch=part, loss=loss) for part in parts])
        if isinstance(loss, Noting):
            for one in computed:
                loss.absorb(one.notes)
        return computed[0].metrics

    def optim_step(self, learning_rate: float) -> float:
        """See `Policy`; the run's own copy follows."""
        norm = self._learner.all(partial(Rank.do, work=partial(Policy.optim_step, learning_rate=learning_rate)))
        self._follow()
        return norm

    def logprobs(self, rows: Sequence[Row], temperature: float) -> list[Tensor]:
        """See `Policy`."""
        return _Ranked(self._learner, None).logprobs(rows, temperature)

    def top_tokens(self, rows: Sequence[Row], k: int, temperature: float) -> list[TopTokens]:
        """See `Policy`."""
        return _Ranked(self._learner, None).top_tokens(rows, k, temperature)

    def frozen(self) -> Scorer:
        """See `Policy`; the ranks keep the weights in shares."""
        return _Ranked(self._learner, self._learner.all(Rank.freeze))

    def adopt_average(self) -> None:
        """See `Policy`."""
        self._do(Policy.adopt_average)
        self._follow()

    def renumber(self, version: int) -> None:
        """See `Policy`."""
        self._do(partial(Policy.renumber, version=version))
        self._follow()

    def save(self, folder: Path, *, with_optimiser: bool) -> None:
        """See `Policy`; rank 0 writes, so its host must see the folder."""
        self._do(partial(Policy.save, folder=folder, with_optimiser=with_optimiser))

    def load(self, folder: Path) -> None:
        """See `Policy`; all ranks read."""
        self._do(partial(Policy.load, folder=folder))
        self._follow()

    def _do(self, work: Callable[[Policy], None]) -> None:
        self._learner.all(partial(Rank.do, work=work))

    def _follow(self) -> None:
        """Take over what has moved."""
        update = self._learner.publish(self._carrier)
        self._receiver.take(update, self._carrier)
        self._learner.drop(update)
        self._own.weights.follow(update.version)


AnyPolicy = Policy | RankedPolicy


@dataclass(frozen=True, slots=True)
class _Ranked:
    """Scores by the ranks' weights, or by those that they keep under a number."""

    learner: RankedLearner
    number: int | None

    def logprobs(self, rows: Sequence[Row], temperature: float) -> list[Tensor]:
        """See `Scorer`."""
        works = [partial(_logprobs, rows=rows[share], temperature=temperature) for share in self._shares(rows)]
        return [
            *chain.from_iterable(self.learner.each([partial(Rank.score, work=w, frozen=self.number) for w in works]))
        ]

    def top_tokens(self, rows: Sequence[Row], k: int, temperature: float) -> list[TopTokens]:
        """See `Scorer`."""
        works = [partial(_top_tokens, rows=rows[share], k=k, temperature=temperature) for share in self._shares(rows)]
        return [
            *chain.from_iterable(self.learner.each([partial(Rank.score, work=w, frozen=self.number) for w in works]))
        ]

    def _each(self, works: Sequence[Callable[[Scorer], R]]) -> list[R]:
        return self.learner.each([partial(Rank.score, work=work, frozen=self.number) for work in works])

    def _shares(self, rows: Sequence[Row]) -> list[slice]:
        return shares(rows, self.learner.num_ranks)


def _logprobs(scorer: Scorer, rows: Sequence[Row], temperature: float) -> list[Tensor]:
    return scorer.logprobs(rows, temperature)


def _top_tokens(scorer: Scorer, rows: Sequence[Row], k: int, temperature: float) -> list[TopTokens]:
    return scorer.top_tokens(rows, k, temperature)
