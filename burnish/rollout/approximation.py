"""Approximate verdicts: a cheap verifier judges, the full one a sampled share, and too many disagreements end that.

A domain with a cheap verifier (`HasQuickVerdict`) can be wrapped for training; evaluations use the domain itself. A
share of the replies, drawn by seed, task and reply, is judged by both verifiers; there the full one counts. Once
enough were compared and the scores differed in more than `most_disagreement` of them, the domain falls back: from
then on only the full verifier judges. A cheap verdict says so (a part `approximate`), and no verdict of a wrapped
domain is cached.

Counts go on in a resumed run from what its last kept step measured. What was judged after that step is judged, and
counted, again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol, runtime_checkable

from burnish.core.errors import ConfigError
from burnish.core.seeds import derive
from burnish.core.types import Split, Task, Verdict
from burnish.domains import Domain
from burnish.rollout.mixture import Source
from burnish.sandbox import Box

LEAST_COMPARED: Final = 20
PART: Final = "approximate"


@runtime_checkable
class HasQuickVerdict(Protocol):
    """A domain that can judge a reply at a fraction of the cost, and mostly as `verify` does."""

    async def quick_verdict(self, task: Task, reply: str, box: Box) -> Verdict:
        """Judge quickly."""
        ...


@dataclass(slots=True, kw_only=True)
class Approximate:
    """A domain whose verdicts may be approximate. Counts grow as it judges."""

    domain: Domain
    quick: HasQuickVerdict
    seed: int
    full_share: float
    most_disagreement: float
    num_compared: int = 0
    num_differing: int = 0

    @property
    def name(self) -> str:
        """The domain's own."""
        return self.domain.name

    @property
    def executes_code(self) -> bool:
        """The domain's own."""
        return self.domain.executes_code

    @property
    def has_fallen_back(self) -> bool:
        """Whether the two verifiers have differed too often."""
        return self.num_compared >= LEAST_COMPARED and self.num_differing > self.most_disagreement * self.num_compared

    def size(self, split: Split) -> int | None:
        """The domain's own."""
        return self.domain.size(split)

    def task(self, split: Split, seed: int, index: int) -> Task:
        """The domain's own."""
        return self.domain.task(split, seed, index)

    def cache_identity(self) -> str | None:
        """Keep no verdict: which of the two it is depends on the run."""
        return None

    async def verify(self, task: Task, reply: str, box: Box) -> Verdict:
        """Judge quickly, fully, or both."""
        if self.has_fallen_back:
            return await self.domain.verify(task, reply, box)
        quick = await self.quick.quick_verdict(task, reply, box)
        if not self._is_compared(task, reply):
            return replace(quick, parts={**quick.parts, PART: 1.0}) if quick.kind == "scored" else quick
        full = await self.domain.verify(task, reply, box)
        if full.kind == "scored":
            self.num_compared += 1
            self.num_differing += quick.score != full.score  # also where the cheap one gave none
        return full

    def metrics(self) -> dict[str, float]:
        """What was compared so far."""
        return {
            f"approximate/{self.name}/num_compared": float(self.num_compared),
            f"approximate/{self.name}/num_differing": float(self.num_differing),
            f"approximate/{self.name}/has_fallen_back": float(self.has_fallen_back),
        }

    def go_on_from(self, metrics: Mapping[str, float]) -> None:
        """Take up the counts of an earlier process, where its metrics have any."""
        if (num_compared := metrics.get(f"approximate/{self.name}/num_compared")) is not None:
            self.num_compared = int(num_compared)
            self.num_differing = int(metrics[f"approximate/{self.name}/num_differing"])

    def _is_compared(self, task: Task, reply: str) -> bool:
        """The same replies in whatever order they come."""
        return derive(self.seed, "approximate", task.content_hash, reply) < self.full_share * 2**63


def approximated(sources: Sequence[Source], *, seed: int, full_share: float, most_disagreement: float) -> list[Source]:
    """Wrap the sources whose domains have a cheap verifier; a `ConfigError` if none has."""
    if full_share == 1:
        return list(sources)
    wrapped = [
        replace(source, domain=Approximate(
            domain=source.domain, quick=source.domain, seed=seed, full_share=full_share,
            most_disagreement=most_disagreement,
        )) if isinstance(source.domain, HasQuickVerdict) else source
        for source in sources
    ]  # fmt: skip
    if not approximations(wrapped):
        names = ", ".join(source.domain.name for source in sources)
        raise ConfigError(
            f"verify.full_share = {full_share}, but no domain here has a cheap verifier ({names}); leave it out, or "
            "give a domain the method quick_verdict(task, reply, box)"
        )
    return wrapped


def approximations(sources: Sequence[Source]) -> Mapping[str, Approximate]:
    """The wrapped ones among the sources' domains, by name."""
    return {source.domain.name: source.domain for source in sources if isinstance(source.domain, Approximate)}
