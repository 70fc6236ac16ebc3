"""What must hold of every batch of rollouts before it may train."""

from collections.abc import Collection, Sequence
from itertools import pairwise

from burnish.core.errors import InvariantError
from burnish.core.types import Trajectory
from burnish.rollout.groups import Group


def check_groups(
    groups: Sequence[Group], *, version: int, max_staleness: int | None, stop_ids: Collection[int], num_needed: int = 2
) -> None:
    """Raise `InvariantError` at the first breach, saying which and where.

    `max_staleness` is None where older tokens stay out of the loss; it must be known then which those are.
    """
    ids = [group.id for group in groups]
    _demand(len(set(ids)) == len(ids), f"a group trains twice in one step: {sorted(ids)}")
    for group in groups:
        _demand(
            len(group.scored) >= num_needed,
            f"group {group.id} has {len(group.scored)} scored members; at least {num_needed} are needed",
        )
        _demand(len({m.prompt_hash for m in group.members}) == 1, f"group {group.id} mixes prompts")
        _demand(len({m.member for m in group.members}) == len(group.members), f"group {group.id} holds a member twice")
        for member in group.scored:
            _check_member(member, version, max_staleness, stop_ids)


def check_mismatch(mean_gap: float, limit: float) -> None:
    """Sampler and learner must give sampled tokens the same log-probability, up to rounding."""
    _demand(
        mean_gap <= limit,
        f"sampler and learner disagree by {mean_gap:.4f} nats a token on average, the limit is {limit}; "
        "they compute different policies: look at the engine's weights, the temperature and the chat template; "
        "if the engine computes in lower precision, allow for it by mismatch_limit",
    )


def check_ratio(ratio: float) -> None:
    """On fresh samples the importance ratio of the first update is 1."""
    _demand(
        abs(ratio - 1) < 1e-4,
        f"the importance ratio of a first update is {ratio:.6f} and not 1: old log-probabilities are stale",
    )


def _check_member(m: Trajectory, version: int, max_staleness: int | None, stop_ids: Collection[int]) -> None:
    where = f"group {m.group_id}, member {m.member}"
    sampled = [
        (token, logprob) for token, was, logprob in zip(m.token_ids, m.was_sampled, m.logprobs, strict=True) if was
    ]
    _demand(len(sampled) > 0, f"{where}: no token was sampled")
    _demand(not m.was_sampled[0], f"{where}: the first token cannot have been sampled")
    _demand(
        all(-1e4 < logprob <= 1e-6 for _, logprob in sampled), f"{where}: a sampled token has no proper log-probability"
    )
    _check_age(m, where, version, max_staleness)
    if m.stop_reason == "eos":
        _demand(sampled[-1][0] in stop_ids, f"{where}: it ended by itself, but its end token is not trained")


def _check_age(m: Trajectory, where: str, version: int, max_staleness: int | None) -> None:
    if max_staleness is not None:
        _demand(
            0 <= version - m.oldest_version <= max_staleness,
            f"{where}: sampled by version {m.oldest_version}, trained at {version}; at most {max_staleness} may lie "
            "apart",
        )
        return
    versions = [m.oldest_version, *(change.version for change in m.version_changes)]
    _demand(
        versions[-1] == m.newest_version <= version and all(one < other for one, other in pairwise(versions)),
        f"{where}: its tokens are of versions {versions} in this order, the newest {m.newest_version}, trained at "
        f"{version}; versions rise along a reply, and each change must be known",
    )


def _demand(holds: bool, breach: str) -> None:
    if not holds:
        raise InvariantError(breach)
