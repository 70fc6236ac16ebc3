"""The records that flow between the parts: task, completion, trajectory, verdict.

Decisions: frozen and slotted; sequences are tuples, so that a record can be hashed, cached and
compared; `to_json` and `from_json` are exact inverses (floats survive bit for bit).
"""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from itertools import pairwise
from typing import Any, Final, Literal, NamedTuple, Self, get_args

Json = str | int | float | bool | None | list["Json"] | dict[str, "Json"]
Role = Literal["system", "user", "assistant", "tool"]
Split = Literal["train", "eval"]
StopReason = Literal["eos", "stop_string", "length"]
VerdictKind = Literal["scored", "unscorable", "timeout", "infrastructure_error"]
Isolation = str
"""The name of a backend of the sandbox: a file of `burnish/sandbox/backends`, or a dotted module from outside."""

SPLITS: tuple[Split, ...] = get_args(Split)
POINTS: Final = "points"
"""The part of a verdict that keeps what a scorer gave on a scale of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One turn of a conversation, as text."""

    role: Role
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one attempt at a task may spend."""

    max_new_tokens: int = 128
    max_steps: int = 1
    verify_wall_s: float = 10.0


def hash_of_prompt(messages: Sequence[Message]) -> str:
    """Sha-256 of a prompt's messages."""
    return sha256_json([asdict(message) for message in messages])


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One piece of work with a hidden truth.

    `id` is `DOMAIN/SPLIT/SEED/INDEX` and is enough to make the task again. `truth` is never shown to
    the policy and never enters its sandbox. `source` names what tasks share (a layout, a family):
    statistics are clustered by it. `gold` is a reply that scores 1, where the domain knows one.
    """

    id: str
    domain: str
    messages: tuple[Message, ...]
    truth: Mapping[str, Json]
    gold: str | None = None
    limits: Limits = field(default_factory=Limits)
    tags: tuple[str, ...] = ()
    source: str = ""

    @property
    def prompt_hash(self) -> str:
        """Sha-256 of the messages: equal prompts are one prompt, whatever their ids."""
        return hash_of_prompt(self.messages)

    @property
    def content_hash(self) -> str:
        """Sha-256 of domain, messages and truth."""
        return sha256_json([self.domain, [asdict(m) for m in self.messages], dict(self.truth)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a verifier found. Only `scored` trains; nothing else ever becomes a silent 0.

    Build one with `scored`, `of_points`, `unscorable`, `timed_out` or `infrastructure_error`. `from_cache` says how it
    was come by, not what it is: parts and evidence are then those of the first reply that had the same answer.
    `took_s` is for how long it was judged, the queue aside; 0 where it was looked up, or found for an equal reply.
    """

    kind: VerdictKind
    score: float | None = None
    parts: Mapping[str, float] = field(default_factory=dict[str, float])
    evidence: str = ""
    from_cache: bool = field(default=False, compare=False)
    took_s: float = field(default=0.0, compare=False)

    def __post_init__(self) -> None:
        if (self.kind == "scored") != (self.score is not None):
            raise ValueError(f"a verdict has a score exactly if it is scored; got {self.kind}, {self.score!r}")
        if self.score is not None and not (math.isfinite(self.score) and 0 <= self.score <= 1):
            raise ValueError(f"a score lies in [0, 1]; got {self.score!r}")

    @classmethod
    def scored(cls, score: float, parts: Mapping[str, float] | None = None, evidence: str = "") -> Self:
        """The reply is worth `score` in [0, 1]; `parts` says how it came about."""
        return cls(kind="scored", score=float(score), parts=dict(parts or {}), evidence=evidence)

    @classmethod
    def of_points(
        cls, points: float, *, lowest: float = 0.0, highest: float, parts: Mapping[str, float] | None = None,
        evidence: str = "",
    ) -> Self:  # fmt: skip
        """The reply got `points` on a scale; the score is their place on it, and the part `points` keeps the number."""
        if not (math.isfinite(points) and lowest <= points <= highest and lowest < highest):
            raise ValueError(f"points lie in [{lowest:g}, {highest:g}]; got {points!r}")
        return cls.scored((points - lowest) / (highest - lowest), {**(parts or {}), POINTS: float(points)}, evidence)

    @classmethod
    def unscorable(cls, reason: str) -> Self:
        """The verifier cannot decide (its own fault or the task's, not the reply's)."""
        return cls(kind="unscorable", evidence=reason)

    @classmethod
    def timed_out(cls, reason: str) -> Self:
        """The *verifier* ran out of time. A reply whose code loops for ever is scored, not timed out."""
        return cls(kind="timeout", evidence=reason)

    @classmethod
    def infrastructure_error(cls, reason: str) -> Self:
        """Machinery failed; the attempt is repeated by rule."""
        return cls(kind="infrastructure_error", evidence=reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """What an engine sampled: `logprobs` are of the distribution that was sampled from.

    `versions` says of each token which weights drew it. `prompt_logprobs` has an entry for each prompt token but the
    first, `top_logprobs` the most probable tokens at each sampled one; both are empty unless they were asked for.
    """

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    versions: tuple[int, ...]
    text: str
    stop_reason: StopReason
    prompt_logprobs: tuple[float, ...] = ()
    top_logprobs: tuple[tuple[tuple[int, float], ...], ...] = ()

    def __post_init__(self) -> None:
        assert len(self.token_ids) == len(self.logprobs) == len(self.versions)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A call of a tool: its name, and its arguments by name."""

    name: str
    arguments: Mapping[str, Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One turn of an episode: where its tokens lie, what was said and answered, what it earned.

    The turn's own tokens are `token_ids[first:end]` of the trajectory; `events` are the environment's own record of
    what the turn did, `earned` its share of the score. The versions are those of the weights that sampled it, where
    some did.
    """

    first: int
    end: int
    reply: str
    observation: str = ""
    events: tuple[Mapping[str, Json], ...] = ()
    earned: float = 0.0
    sample_s: float = 0.0
    step_s: float = 0.0
    oldest_version: int = 0
    newest_version: int = 0


class VersionChange(NamedTuple):
    """From token `first` on, these weights drew what was sampled."""

    first: int
    version: int


def version_changes(places: Sequence[int], versions: Sequence[int]) -> tuple[VersionChange, ...]:
    """Where the weights changed that drew the tokens at these places, one version a place."""
    later = zip(pairwise(versions), places[1:], strict=True) if places else ()
    return tuple(VersionChange(place, version) for (before, version), place in later if version != before)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trajectory:
    """One attempt at one task, as tokens: what was sampled is what is trained.

    `token_ids`, `was_sampled` and `logprobs` have one entry a token; a log-probability is 0.0 where
    the token was given and not sampled. An episode of several turns is one stream with several stretches that were
    sampled; `steps` says which, `ended_by` what ended it, and `reply` is its last turn.

    Versions rise along it: its first sampled token is of `oldest_version`, and `version_changes` are all changes.
    """

    group_id: str
    member: int
    task_id: str
    prompt_hash: str
    seed: int
    token_ids: tuple[int, ...]
    was_sampled: tuple[bool, ...]
    logprobs: tuple[float, ...]
    reply: str
    stop_reason: StopReason
    oldest_version: int
    newest_version: int
    verdict: Verdict | None = None
    sample_s: float = 0.0
    verify_s: float = 0.0
    steps: tuple[Step, ...] = ()
    ended_by: str = ""
    version_changes: tuple[VersionChange, ...] = ()

    def __post_init__(self) -> None:
        assert len(self.token_ids) == len(self.was_sampled) == len(self.logprobs)

    @property
    def num_sampled(self) -> int:
        """How many tokens the policy chose."""
        return sum(self.was_sampled)

    @property
    def prompt_length(self) -> int:
        """How many tokens come before the first sampled one."""
        return self.was_sampled.index(True) if True in self.was_sampled else len(self.was_sampled)

    def first_since(self, version: int) -> int:
        """The first token from which on all are of this version or newer; their number where none is."""
        if self.oldest_version >= version:
            return 0
        return next((each.first for each in self.version_changes if each.version >= version), len(self.token_ids))

    def version_at(self, place: int) -> int:
        """Which weights drew a sampled token."""
        return max((each.version for each in self.version_changes if each.first <= place), default=self.oldest_version)

    def to_json(self) -> str:
        """One line of JSON."""
        row = {each.name: getattr(self, each.name) for each in fields(self)}  # `asdict` would copy every token
        verdict = None if self.verdict is None else asdict(self.verdict)
        steps = [asdict(step) for step in self.steps]
        return json.dumps(row | {"verdict": verdict, "steps": steps}, separators=(",", ":"))

    @classmethod
    def from_json(cls, line: str) -> Self:
        """The inverse of `to_json`."""
        row = json.loads(line)
        verdict = Verdict(**row.pop("verdict")) if row["verdict"] else row.pop("verdict")
        for name in ("token_ids", "was_sampled", "logprobs"):
            row[name] = tuple(row[name])
        steps = steps_from_json(row.pop("steps", []))
        changes = changes_from_json(row.pop("version_changes", []))
        return cls(**row, verdict=verdict, steps=steps, version_changes=changes)


def changes_from_json(rows: Sequence[Sequence[int]]) -> tuple[VersionChange, ...]:
    """The changes of version of a trajectory, from pairs."""
    return tuple(VersionChange(*row) for row in rows)


def steps_from_json(rows: Sequence[Mapping[str, Any]]) -> tuple[Step, ...]:
    """The steps of a trajectory, from what `asdict` makes of them."""
    whole: list[dict[str, Any]] = [{**row, "events": tuple(row["events"])} for row in rows]
    return tuple(Step(**row) for row in whole)


def sha256_json(value: object) -> str:
    """Hash a JSON value by its canonical form (sorted keys, no spaces)."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
