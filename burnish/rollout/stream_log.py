"""What happens in an asynchronous loop, as events: the ledger keeps them, and a run can be repeated from them.

A run is a function of its recipe and of its events: which member was begun at which engine step, which verdict had
come by when, what was trained on, what was let go. What an engine samples follows from that, so of a sample only its
versions and a digest are noted, to say where a repetition parts. What a world tells an episode follows from nothing
else, so it is noted as the tokens that it became. On disk an event is a short JSON array.
"""

import hashlib
import struct
from collections.abc import Iterable, Mapping
from typing import NamedTuple, cast

from burnish.core.errors import RunFolderError
from burnish.core.ledger import Events
from burnish.core.types import Completion, Json, Trajectory


class Key(NamedTuple):
    """Attempt number `attempt` at member `member` of the group of draw number `number`."""

    number: int
    member: int
    attempt: int


class Began(NamedTuple):
    """A member was given to the engine."""

    key: Key


class Sampled(NamedTuple):
    """The engine has finished a member."""

    key: Key
    oldest_version: int
    newest_version: int
    digest: str


class Judged(NamedTuple):
    """A verdict has come. Of one without a score, whose attempt may leave no other trace: its kind, for how long it was
    judged, and the tokens of the reply."""

    key: Key
    failure: str = ""
    took_s: float = 0.0
    num_tokens: int = 0


class Asked(NamedTuple):
    """The next turn of an episode was given to the engine, after these tokens that followed its last turn."""

    key: Key
    max_new_tokens: int
    given: tuple[int, ...]


class Said(NamedTuple):
    """The engine has finished a turn of an episode."""

    key: Key
    oldest_version: int
    newest_version: int
    digest: str


class Played(NamedTuple):
    """An episode has ended, and its verdict has come."""

    key: Key
    oldest_version: int
    newest_version: int
    digest: str


class Cut(NamedTuple):
    """A member was stopped, whatever it was at."""

    key: Key


class Ended(NamedTuple):
    """A group was let go without training."""

    number: int
    why: str


class Chosen(NamedTuple):
    """A group and those of its members that train."""

    number: int
    members: tuple[int, ...]


class Trained(NamedTuple):
    """A step was begun, from weights of this version."""

    step: int
    version: int
    groups: tuple[Chosen, ...]


class Interrupted(NamedTuple):
    """The process ended, and another went on: all that was under way in the engine is gone."""


class Accounted(NamedTuple):
    """What some domains have taken and shown so far (`Scheduler.settled_accounts`)."""

    accounts: Mapping[str, Json]


class Turned(NamedTuple):
    """After its engine step `tick` a worker was given and rid of members; `last` is its step of the last that it
    finished then, which are the samples that come next. Its weights were of this version."""

    replica: int
    tick: int
    last: int
    version: int
    began: tuple[Key, ...]
    cut: tuple[Key, ...]


class Died(NamedTuple):
    """A worker died, and what it was at is begun anew by its successor, whose weights are of this version."""

    replica: int
    version: int


Event = (
    Began | Sampled | Judged | Asked | Said | Played | Cut | Ended | Trained | Interrupted | Turned | Died | Accounted
)


class Moment(NamedTuple):
    """Events at one engine step, in order."""

    tick: int
    events: tuple[Event, ...]


def digest(one: Trajectory | Completion) -> str:
    """Twelve digits that differ if a token, a bit of a log-probability or the ending does."""
    hashed = hashlib.sha256(repr((one.token_ids, one.stop_reason)).encode())
    hashed.update(struct.pack(f"<{len(one.logprobs)}d", *one.logprobs))
    return hashed.hexdigest()[:12]


def sampled(key: Key, trajectory: Trajectory) -> Sampled:
    """The event of a finished member."""
    return Sampled(key, trajectory.oldest_version, trajectory.newest_version, digest(trajectory))


def said(key: Key, turn: Completion) -> Said:
    """The event of a finished turn."""
    return Said(key, min(turn.versions), max(turn.versions), digest(turn))


def played(key: Key, trajectory: Trajectory) -> Played:
    """The event of an episode that has ended."""
    return Played(key, trajectory.oldest_version, trajectory.newest_version, digest(trajectory))


def judged(key: Key, trajectory: Trajectory) -> Judged:
    """The event of a member's verdict."""
    verdict = trajectory.verdict
    assert verdict is not None
    if verdict.kind == "scored":
        return Judged(key)
    return Judged(key, verdict.kind, round(verdict.took_s, 6), trajectory.num_sampled)


def to_json(events: Iterable[Event]) -> list[Json]:
    """As the ledger keeps them."""
    return [_to_json(event) for event in events]


def from_ledger(kept: Iterable[Events]) -> list[Moment]:
    """The inverse of `to_json`; `RunFolderError` if another version of Burnish wrote them."""
    try:
        return [Moment(tick, tuple(_from_json(cast(list[Json], entry)) for entry in payload)) for tick, payload in kept]
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise RunFolderError(
            f"the ledger has an event that cannot be read ({type(error).__name__}: {error}); go on with the version of "
            "burnish that the run was started with, or start again under another name"
        ) from None


def _to_json(event: Event) -> Json:
    match event:
        case Began(key):
            return ["b", *key]
        case Sampled(key, oldest, newest, digits):
            return ["s", *key, oldest, newest, digits]
        case Judged(key, failure, took_s, num_tokens):
            return ["j", *key, failure, took_s, num_tokens] if failure else ["j", *key]
        case Asked(key, max_new_tokens, given):
            return ["q", *key, max_new_tokens, [*given]]
        case Said(key, oldest, newest, digits):
            return ["u", *key, oldest, newest, digits]
        case Played(key, oldest, newest, digits):
            return ["p", *key, oldest, newest, digits]
        case Cut(key):
            return ["c", *key]
        case Ended(number, why):
            return ["e", number, why]
        case Trained(step, version, groups):
            return ["t", step, version, [[number, *members] for number, members in groups]]
        case Interrupted():
            return ["i"]
        case Turned(replica, tick, last, version, began, cut):
            return ["r", replica, tick, last, version, [[*key] for key in began], [[*key] for key in cut]]
        case Accounted(accounts):
            return ["a", dict(accounts)]
        case Died(replica, version):
            return ["d", replica, version]


def _from_json(entry: list[Json]) -> Event:
    kind, *rest = entry
    match kind:
        case "b":
            return Began(_key(rest))
        case "s":
            return Sampled(_key(rest), cast(int, rest[3]), cast(int, rest[4]), cast(str, rest[5]))
        case "j":
            return Judged(_key(rest), *cast(tuple[str, float, int], tuple(rest[3:])))
        case "q":
            return Asked(_key(rest), cast(int, rest[3]), tuple(cast(list[int], rest[4])))
        case "u":
            return Said(_key(rest), cast(int, rest[3]), cast(int, rest[4]), cast(str, rest[5]))
        case "p":
            return Played(_key(rest), cast(int, rest[3]), cast(int, rest[4]), cast(str, rest[5]))
        case "c":
            return Cut(_key(rest))
        case "e":
            return Ended(cast(int, rest[0]), cast(str, rest[1]))
        case "t":
            groups = cast(list[list[int]], rest[2])
            chosen = tuple(Chosen(number, tuple(members)) for number, *members in groups)
            return Trained(cast(int, rest[0]), cast(int, rest[1]), chosen)
        case "i":
            return Interrupted()
        case "r":
            replica, tick, last, version = cast(list[int], rest[:4])
            began, cut = (tuple(_key(key) for key in cast(list[list[Json]], keys)) for keys in rest[4:6])
            return Turned(replica, tick, last, version, began, cut)
        case "a":
            return Accounted(cast(dict[str, Json], rest[0]))
        case "d":
            return Died(cast(int, rest[0]), cast(int, rest[1]))
        case _:
            raise ValueError(f"unknown kind {kind!r}")


def _key(values: list[Json]) -> Key:
    number, member, attempt = cast(list[int], values[:3])
    return Key(number, member, attempt)
