"""What asynchrony does to a step: how old its tokens may be and are, and how many of them the correction takes away."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Self

import torch

from burnish.core.types import Trajectory
from burnish.learner.ranked_policy import AnyPolicy
from burnish.objectives import Streams, ops
from burnish.rollout.groups import Group, credit
from burnish.stages.rl_credit import FirstTrained, from_the_start, sampled_logprobs
from burnish.stages.rl_loss import Multipliers


class AgeLimit(NamedTuple):
    """How old a token that trains may be."""

    largest_lag: Callable[[int], int] = lambda num_steps: 0
    """How many versions it may lag where the recipe allows it to lag so many steps."""
    first_trained: FirstTrained = from_the_start
    """Where older ones are masked: what comes before stays out of the loss. Else there is none that is older."""

    @property
    def masks(self) -> bool:
        """Whether replies with older tokens may train."""
        return self.first_trained is not from_the_start

    def masking(self, version: int, max_staleness: Mapping[str, int]) -> Self:
        """The limit of a step that begins from weights of `version`; `max_staleness` is in steps, by group."""
        oldest = {group_id: version - self.largest_lag(steps) for group_id, steps in max_staleness.items()}
        return self._replace(first_trained=lambda member: member.first_since(oldest[member.group_id]))


FRESH = AgeLimit()
"""All of the weights that train."""


class Corrected:
    """Takes note of the factors that a correction gives to tokens."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def by(self, multipliers: Multipliers) -> Multipliers:
        """The same correction, seen."""
        return _Seen(multipliers, self)

    def see(self, s: Streams, factors_T: torch.Tensor) -> None:
        """Take note of a pack."""
        counted_T = s.weights_T != 0
        old_logprobs_T = ops.required(s.old_logprobs_T, "old_logprobs_T")
        ratio_T = ops.importance_ratio(old_logprobs_T, ops.required(s.rollout_logprobs_T, "rollout_logprobs_T"))
        self._counts["tokens"] += int(counted_T.sum())
        self._counts["masked"] += int(((factors_T == 0) & counted_T).sum())
        self._counts["capped"] += int(((factors_T > 0) & (factors_T < ratio_T) & counted_T).sum())

    def clear(self) -> None:
        """Forget what was seen."""
        self._counts = Counter[str]()

    def absorb(self, other: object) -> None:
        """Add what a rank's copy has seen."""
        assert isinstance(other, Corrected)
        self._counts += other._counts

    def take(self) -> Mapping[str, float]:
        """What was seen since the last call: the shares of tokens that left the loss, and whose ratio was cut short."""
        counts, self._counts = self._counts, Counter()
        if not counts["tokens"]:
            return {}
        return {f"correction_{name}": counts[name] / counts["tokens"] for name in ("masked", "capped")}


class _Seen(NamedTuple):
    """A correction whose factors are noted; ranks can be sent it."""

    multipliers: Multipliers
    notes: Corrected

    def __call__(self, s: Streams) -> torch.Tensor:
        """The factors."""
        factors_T = self.multipliers(s)
        self.notes.see(s, factors_T)
        return factors_T

    def clear(self) -> None:
        """Forget what was seen."""
        self.notes.clear()

    def absorb(self, other: object) -> None:
        """Add what a rank's copy has seen."""
        assert isinstance(other, _Seen)
        self.notes.absorb(other.notes)


def staleness_metrics(
    groups: Sequence[Group], step: int, max_staleness: int, step_of: Callable[[int], int],
    age_limit: AgeLimit = FRESH,
) -> dict[str, float]:  # fmt: skip
    """`staleness/K`: the share of trained tokens in replies whose oldest token that trains was sampled K steps ago.

    `step_of` says which step began from the weights of a version. `overdue_masked` is the share of sampled tokens that
    were too old to train, where those are masked.
    """
    members = [member for group in groups for member in group.members]
    tokens = Counter[int]()
    for member in members:
        first = age_limit.first_trained(member)
        tokens[step - step_of(member.version_at(first))] += sum(member.was_sampled[first:])
    total = max(tokens.total(), 1)
    num_sampled = sum(member.num_sampled for member in members)
    masked = {"overdue_masked": 1 - tokens.total() / max(num_sampled, 1)} if age_limit.masks else {}
    return masked | {
        **{f"staleness/{lag}": tokens[lag] / total for lag in range(max_staleness + 1)},
        "staleness_mean": sum(lag * count for lag, count in tokens.items()) / total,
        "mixed_share": _share(member.oldest_version != member.newest_version for member in members),
    }


def mismatch_of_fresh(policy: AnyPolicy, groups: Sequence[Group], temperature: float) -> float:
    """The mean gap of sampler and learner over replies of the weights as they are; 0 if there is none.

    Older replies differ because the weights have moved, so they say nothing about the engine. One group's worth of
    replies is enough to tell a wrong engine, and costs one small forward.
    """
    most = max((len(group.members) for group in groups), default=0)
    fresh = [m for group in groups for m in group.scored if m.oldest_version == policy.version][:most]
    if not fresh:
        return 0.0
    rows = [row for member in fresh for row in credit([_alone(member)], torch.zeros_like)]
    gaps = [
        (ours_T.cpu() - sampled_logprobs(row)).abs()
        for row, ours_T in zip(rows, policy.logprobs(rows, temperature), strict=True)
    ]
    return float(torch.cat(gaps).mean())


def _alone(member: Trajectory) -> Group:
    return Group(member.group_id, "", (member,))


def _share(flags: Iterable[bool]) -> float:
    values = list(flags)
    return sum(values) / max(len(values), 1)
