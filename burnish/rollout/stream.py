"""Groups under way in an engine that runs on while verdicts are outstanding and weights change.

A stream does what it is told (`begin`, `cut`, `end`, `judge`) and steps the engine; it decides nothing and knows no
clock, so that the same calls between the same engine steps give the same samples: `tick` counts the steps. Each
member is a request of its own, whose numbers follow from group, member and attempt; members of one prompt share what
is computed of it.

A member of a task of several turns is an episode: each of its turns is a request of its own, which is submitted when
its world has answered (`ask`); what worlds do is `stream_episodes`'s, or known from a ledger where a run is repeated.

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
from burnish.domains import HasEnvironment
from burnish.engine.replicas import ReplicaEngine
from burnish.engine.types import Failed, Finished, LiveEngine, Request, SamplingParams
from burnish.rollout.attempts import Attempt, as_request, as_trajectory
from burnish.rollout.collect import Sampling
from burnish.rollout.groups import Group
from burnish.rollout.mixture import Draw, Mixture
from burnish.rollout.stream_episodes import Question, StreamEpisodes, Turn
from burnish.rollout.stream_log import Event, Key, said, sampled
from burnish.rollout.stream_turns import TurnLog


class Sample(NamedTuple):
    """A finished member: a reply that is not judged yet, or an episode with its verdict."""

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

    def __init__(
        self, engine: LiveEngine, chat: Chat, origin: Origin, *, tick: int = 0, episodes: StreamEpisodes | None = None
    ) -> None:
        self._engine, self._chat, self.origin = engine, chat, origin
        self.tick = tick
        self._episodes = episodes
        self._playing: set[Key] = set()
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
    def num_in_worlds(self) -> int:
        """How many members wait for a world to answer."""
        return self._episodes.num_in_worlds if self._episodes else 0

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
        """Give a member to the engine, or have its episode begin."""
        if key.number not in self._pending:
            self.adopt(key.number)
        if isinstance(self.draw(key.number).source.domain, HasEnvironment):
            self._playing.add(key)
            if self._episodes:
                self._episodes.begin(key, self.origin.attempt(key.number))
            return
        self._submit(key, self.request(key))

    def ask(self, key: Key, request: Request) -> None:
        """Give the next turn of an episode to the engine."""
        if key in self._playing:  # else it was cut
            self._submit(key, request)

    def _submit(self, key: Key, request: Request) -> None:
        number = self._engine.submit(request)
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
        if key in self._playing:
            self._playing.discard(key)
            if self._episodes:
                self._episodes.cut(key, self.origin.attempt(key.number))

    def end(self, number: int) -> None:
        """Let go of a group; members under way are stopped."""
        for key in [key for key in (*self._request_of, *self._playing) if key.number == number]:
            self.cut(key)
        del self._pending[number]

    def step(self) -> list[Sample | Turn]:
        """Go on by one engine step; returns the members, and the turns of episodes, that it finished."""
        self.tick += 1
        samples: list[Sample | Turn] = []
        for event in self._engine.step():
            if isinstance(event, Failed):
                raise event.error
            if isinstance(event, Finished):
                samples.append(self._finished(event))
        return samples

    def log(self, samples: Sequence[Sample | Turn]) -> list[Event]:
        """What a step did, as events: what it finished, and what workers were at."""
        events = [said(*one) if isinstance(one, Turn) else sampled(one.key, one.trajectory) for one in samples]
        return self._turns.events(events) if self._turns else [*events]

    def play(self, wait_s: float = 0.0) -> tuple[list[Question], list[Sample]]:
        """Take what worlds have answered: the turns to be asked for, and the episodes that have ended."""
        if self._episodes is None:
            return [], []
        questions, endings = self._episodes.take(wait_s)
        return questions, [self.ended(key, trajectory) for key, trajectory in endings]

    def ended(self, key: Key, trajectory: Trajectory) -> Sample:
        """Take up an episode that has ended, with its verdict."""
        self._playing.discard(key)
        pending = self._pending[key.number]
        pending.members[key.member] = trajectory
        return Sample(key, pending.attempt.draw, trajectory)

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
        self.leave_worlds()
        self._clear()

    def leave_worlds(self) -> None:
        """Let go of all episodes; nothing of their worlds runs on."""
        self._playing.clear()
        if self._episodes:
            self._episodes.stop()

    def _clear(self) -> None:
        """An engine is in the same state after sampling nothing as when it was opened."""
        for _ in self._engine.sample([]):
            raise AssertionError("nothing was asked for")

    def _finished(self, event: Finished) -> Sample | Turn:
        key = self._under_way.pop(event.request)
        del self._request_of[key]
        return self.finish(key, event.completion)

    def finish(self, key: Key, completion: Completion) -> Sample | Turn:
        """Take up what came of a member, or of a turn of its episode."""
        if key in self._playing:
            turn = Turn(key, completion)
            if self._episodes:
                self._episodes.said(turn)
            return turn
        pending = self._pending[key.number]
        seeded = pending.attempt._replace(seed=derive(pending.attempt.seed, key.member, key.attempt))
        trajectory = as_trajectory(self._chat, seeded, completion, member=key.member)
        pending.members[key.member] = trajectory
        return Sample(key, pending.attempt.draw, trajectory)
