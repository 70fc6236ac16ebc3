"""Groups under way in an engine that runs on while verdicts are outstanding and weights change.

A stream does what it is told (`begin`, `cut`, `end`, `judge`) and steps the engine; it decides nothing and knows no
clock, so that the same calls between the same engine steps give the same samples: `tick` counts the steps. Each
member is a request of its own, whose numbers follow from group, member and attempt; members of one prompt share what
is computed of it.

Decision: after `interrupt` nothing of what was under way is left in the engine, as in a new process; finished members
stay. Where the engine is in workers, it is in the order of what each of them did that samples follow from
(`stream_turns`), and `tick` is of no meaning. Not covered: pausing a sample to go on later.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from burnish.chat.template import Chat
from burnish.core.seeds import derive
from burnish.core.types import Completion, Trajectory, Verdict
from burnish.engine.replicas import ReplicaEngine
from burnish.engine.types import Failed, Finished, LiveEngine, Request, SamplingParams
from burnish.rollout.attempts import Attempt, as_request, as_trajectory
from burnish.rollout.collect import Sampling
from burnish.rollout.groups import Group
from burnish.rollout.mixture import Draw, Mixture
from burnish.rollout.stream_log import Event, Key, sampled
from burnish.rollout.stream_turns import TurnLog


class Sample(NamedTuple):
    """A finished member, not judged yet."""

    key: Key
    draw: Draw
    trajectory: Trajectory


@dataclass(slots=True, kw_only=True)
class _Pending:
    """A group that has begun and not ended, and the members that were sampled."""

    attempt: Attempt
    members: dict[int, Trajectory] = field(default_factory=dict[int, Trajectory])


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where groups come from, and how they are sampled."""

    mixture: Mixture
    stage: int
    seed: int
    group_size: int
    params: SamplingParams
    own: Mapping[str, Sampling] = field(default_factory=dict[str, Sampling])
    """How tasks reported under a name are sampled, where not by the above."""

    def group_id(self, number: int) -> str:
        """The id of the group of a draw."""
        return f"{self.stage}/{number:07d}"

    def attempt(self, number: int) -> Attempt:
        """What to try for a draw."""
        group_id, draw = self.group_id(number), self.mixture.draw(number)
        params = self.own.get(draw.source.entry.report_name, Sampling(self.group_size, self.params)).params
        return Attempt(group_id=group_id, draw=draw, seed=derive(self.seed, group_id), num_samples=1, params=params)


class Stream:
    """See the module's docstring."""

    def __init__(self, engine: LiveEngine, chat: Chat, origin: Origin, *, tick: int = 0) -> None:
        self._engine, self._chat, self.origin = engine, chat, origin
        self.tick = tick
        self._turns = TurnLog(engine) if isinstance(engine, ReplicaEngine) else None
        self._pending: dict[int, _Pending] = {}
        self._under_way: dict[int, Key] = {}
        self._request_of: dict[Key, int] = {}
        self._clear()

    @property
    def num_under_way(self) -> int:
        """How many members the engine has."""
        return len(self._under_way)

    @property
    def num_waiting(self) -> int:
        """How many of them wait inside the engine."""
        return self._engine.num_waiting

    @property
    def pending(self) -> Sequence[int]:
        """The draws whose groups have begun and not ended."""
        return list(self._pending)

    def draw(self, number: int) -> Draw:
        """The draw of that number."""
        return self.origin.mixture.draw(number)

    def members(self, number: int) -> Mapping[int, Trajectory]:
        """What was sampled of a group that has not ended."""
        return self._pending[number].members

    def adopt(self, number: int, members: Sequence[Trajectory] = ()) -> None:
        """Take up a group, with what an earlier process sampled of it."""
        self._pending[number] = _Pending(
            attempt=self.origin.attempt(number), members={member.member: member for member in members}
        )

    def begin(self, key: Key) -> None:
        """Give a member to the engine."""
        if key.number not in self._pending:
            self.adopt(key.number)
        number = self._engine.submit(self.request(key))
        self._under_way[number], self._request_of[key] = key, number
        if self._turns:
            self._turns.name(number, key)

    def request(self, key: Key) -> Request:
        """What an engine is asked for a member."""
        attempt = self.origin.attempt(key.number)
        return as_request(self._chat, attempt._replace(seed=derive(attempt.seed, key.member, key.attempt)))

    def cut(self, key: Key) -> None:
        """Stop a member, whatever it is at."""
        if (request := self._request_of.pop(key, None)) is not None:
            del self._under_way[request]
            self._engine.cancel(request)

    def end(self, number: int) -> None:
        """Let go of a group; members under way are stopped."""
        for key in [key for key in self._request_of if key.number == number]:
            self.cut(key)
        del self._pending[number]

    def step(self) -> list[Sample]:
        """Go on by one engine step; returns the members that it finished."""
        self.tick += 1
        samples: list[Sample] = []
        for event in self._engine.step():
            if isinstance(event, Failed):
                raise event.error
            if isinstance(event, Finished):
                samples.append(self._finished(event))
        return samples

    def log(self, samples: Sequence[Sample]) -> list[Event]:
        """What a step did, as events: what it finished, and what workers were at."""
        events = [sampled(sample.key, sample.trajectory) for sample in samples]
        return self._turns.events(events) if self._turns else [*events]

    def judge(self, key: Key, verdict: Verdict, verify_s: float = 0.0) -> Trajectory:
        """Give a member its verdict."""
        members = self._pending[key.number].members
        members[key.member] = replace(members[key.member], verdict=verdict, verify_s=verify_s)
        return members[key.member]

    def group(self, number: int, members: Sequence[int] | None = None) -> Group:
        """A group with these of its members, or with all that were judged."""
        pending = self._pending[number]
        judged = sorted(m for m, trajectory in pending.members.items() if trajectory.verdict is not None)
        chosen = tuple(pending.members[member] for member in (judged if members is None else members))
        return Group(pending.attempt.group_id, pending.attempt.draw.source.entry.report_name, chosen)

    def interrupt(self) -> None:
        """Let go of everything in the engine, as the end of the process does."""
        for request in list(self._under_way):
            self._engine.cancel(request)
        self._under_way.clear()
        self._request_of.clear()
        self._clear()

    def _clear(self) -> None:
        """An engine is in the same state after sampling nothing as when it was opened."""
        for _ in self._engine.sample([]):
            raise AssertionError("nothing was asked for")

    def _finished(self, event: Finished) -> Sample:
        key = self._under_way.pop(event.request)
        del self._request_of[key]
        return self.finish(key, event.completion)

    def finish(self, key: Key, completion: Completion) -> Sample:
        """Take up what came of a member."""
        pending = self._pending[key.number]
        seeded = pending.attempt._replace(seed=derive(pending.attempt.seed, key.member, key.attempt))
        trajectory = as_trajectory(self._chat, seeded, completion, member=key.member)
        pending.members[key.member] = trajectory
        return Sample(key, pending.attempt.draw, trajectory)
