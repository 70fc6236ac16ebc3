"""The asynchronous loop of stage `rl`: the engine steps on while verdicts are outstanding and weights change.

One thread samples and trains in turn; verdicts are found in the background. `rollout/scheduler` decides what begins,
what is let go and what trains; this loop carries that out and keeps every decision in the ledger *before* it takes
effect (`rollout/stream_log`). So a run can be repeated from its ledger (`rl_replay`), whatever decided and when.

Decisions:
- Staleness counts steps: a token that was drawn by the weights that step v begins from trains in step v + max_staleness
  at the latest. It is checked at each update; a breach stops the run.
- `in_flight = "continue"`: an update is made as soon as its batch is ready. Samples under way go on with the new
  weights and with the keys and values that the old ones left; each token has its version. "finish": a batch that is
  ready waits until all samples under way have ended, and none is begun meanwhile, so that each reply is of one version.
- What a step trains on is read back from the ledger, so that a resumed run makes the updates again that no checkpoint
  contains, from the same rollouts, and comes to the same weights. Then it goes on with the groups that were under way:
  finished members stay, the others are begun anew.
- At the stage's end what is left is dropped and booked. Groups without signal are replaced as they end.
- A loop that is closed between two steps leaves the engine as it was opened, and another goes on as in a new process:
  so gates evaluate. What was drawn before the last roll-back is dropped then, and what was not begun never is.
- An engine in this process samples from the learner's own weights, so an update is made when it may be loaded.
  Replicas have copies: an update is made as soon as its batch is ready, while they go on, and is then sent to them.
- A pause, which would spare tokens that cannot train (`overdue = "mask"`), is not made: they are sampled, and masked.
"""

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack
from itertools import count

from burnish.core.errors import ConfigError, InvariantError
from burnish.core.ledger import PENDING
from burnish.core.types import Trajectory, Verdict
from burnish.domains import HasEnvironment
from burnish.engine.local import LocalEngine
from burnish.engine.replicas import ReplicaEngine
from burnish.rollout.attempts import Attempt
from burnish.rollout.episode_limits import Limits
from burnish.rollout.scheduler import Scheduler
from burnish.rollout.scheduler_types import BatchPlan, Decision, Load, Prompt, Ticket
from burnish.rollout.stream import Origin, Sample, Stream
from burnish.rollout.stream_episodes import StreamEpisodes
from burnish.rollout.stream_log import (
    Accounted,
    Began,
    Chosen,
    Cut,
    Ended,
    Event,
    Interrupted,
    Key,
    Moment,
    Trained,
    from_ledger,
    played,
    to_json,
)
from burnish.rollout.stream_log import judged as judged_event
from burnish.rollout.stream_verdicts import BackgroundVerdicts, Verdicts
from burnish.stages.rl_config import Config
from burnish.stages.rl_domains import scheduler_config
from burnish.stages.rl_plan import Plan
from burnish.stages.rl_trainer import Trainer, Versions, number_of
from burnish.stages.session import Session

_LET_GO_IN_A_ROW = 1000
_WAIT_S = 1.0
_LOOK_S = 0.02


def asynchronous_steps(
    session: Session, config: Config, plan: Plan, first: int, *,
    verdicts: Verdicts | None = None, clock: Callable[[], float] = time.monotonic,
) -> Generator[dict[str, float]]:  # fmt: skip
    """Take the steps; yields of each the mean reward of each domain that was trained on, empty without signal."""
    engine = session.means.engine
    if not isinstance(engine, LocalEngine | ReplicaEngine):
        raise ConfigError(
            "max_staleness above 0 steps the engine between updates, and the recipe's engine is a server, "
            f'{session.recipe.engine.use!r}; set max_staleness to 0, or take engine.use = "local", whose replicas '
            "runtime.engine_replicas are"
        )
    moments = from_ledger(session.ledger.events(session.position))
    versions = Versions(moments)
    versions.begin(first, session.policy.version)
    trainer = Trainer(session, config, plan, versions)
    for ended in (event for moment in moments for event in moment.events if isinstance(event, Ended)):
        trainer.note_end(ended)
    trained = {event.step: event for moment in moments for event in moment.events if isinstance(event, Trained)}
    for step in range(first, len(trained)):
        yield trainer.train(step, trained[step].groups)
    if len(trained) == config.num_steps:
        return
    background = BackgroundVerdicts(session.means.judge, session.means.background)
    with ExitStack() as stack:
        stack.callback(background.stop)
        loop = _Loop(trainer, engine, moments, verdicts or background, clock)
        stack.callback(loop.leave_worlds)
        try:
            while loop.step < config.num_steps:
                yield loop.next_step()
        except GeneratorExit:
            loop.stop()
            raise


class _Loop:
    """See the module's docstring. `step` is the next to be made."""

    def __init__(
        self, trainer: Trainer, engine: LocalEngine | ReplicaEngine, moments: Sequence[Moment], verdicts: Verdicts,
        clock: Callable[[], float],
    ) -> None:  # fmt: skip
        session, self._engine = trainer.session, engine
        self._replicas = engine if isinstance(engine, ReplicaEngine) else None
        self._session, self._trainer, self._ledger = session, trainer, session.ledger
        self._verdicts, self._clock, self.step = verdicts, clock, trainer.versions.num_begun - 1
        tick = moments[-1].tick if moments else 0
        self._stream = Stream(
            engine, session.means.chat, trainer.origin, tick=tick, episodes=StreamEpisodes(session.means)
        )
        self._accounts = {
            domain: account
            for moment in moments
            for event in moment.events
            if isinstance(event, Accounted)
            for domain, account in event.accounts.items()
        }
        options = scheduler_config(trainer.config, trainer.plan.rules)
        self._scheduler = Scheduler(options, first_version=self.step, accounts=self._accounts)
        issued = {number_of(group_id) for group_id in self._ledger.issued(session.position)}
        first_draw = trainer.plan.course.first_draw_that_counts
        self._numbers: Iterator[int] = (number for number in count(first_draw) if number not in issued)
        self._recorded: dict[tuple[int, int], Trajectory] = {}
        self._held: BatchPlan | None = None
        self._sent: int | None = None
        """The step from whose weights replicas are about to sample."""
        self._idle_s = 0.0
        self._num_let_go = 0
        if moments:
            self._append([Interrupted()])
        self._give_up(before=first_draw)
        self._take_up(moments)

    def _give_up(self, before: int) -> None:
        """Drop what is left of the groups that were drawn before a roll-back."""
        left = [number for one in self._ledger.pending(self._session.position) if (number := number_of(one)) < before]
        if not left:
            return
        ended = [Ended(number, "rolled_back") for number in left]
        with self._ledger.together():
            self._ledger.consume(self.step, dropped=[self._trainer.origin.group_id(number) for number in left])
            self._append(ended)
        for event in ended:
            self._trainer.note_end(event)

    def _take_up(self, moments: Sequence[Moment]) -> None:
        """Go on with the groups that an earlier process had begun, in the order in which it began them."""
        began = [event.key.number for moment in moments for event in moment.events if isinstance(event, Began)]
        places = {number: place for place, number in reversed(list(enumerate(began)))}
        group_ids = sorted(self._ledger.pending(self._session.position), key=lambda one: places[number_of(one)])
        for group_id in group_ids:
            members = self._ledger.rollouts(group_id)
            self._stream.adopt(number_of(group_id), members)
            self._recorded |= {(number_of(group_id), member.member): member for member in members}
        prompts = [self._prompt(number_of(group_id)) for group_id in group_ids]
        self._scheduler.offer(prompts, self._clock(), had_begun=True)

    def leave_worlds(self) -> None:
        """Leave no world of an episode running."""
        self._stream.leave_worlds()

    def stop(self) -> None:
        """Leave nothing in the engine."""
        self._stream.interrupt()
        if self._replicas:
            self._replicas.begin_anew()

    def next_step(self) -> dict[str, float]:
        """Sample and judge until a batch is ready, and train on it."""
        self._trainer.go_on()
        with self._session.means.watchdog.waiting_for(self._awaited):
            return self._next_step()

    def _next_step(self) -> dict[str, float]:
        while True:
            now_s = self._clock()
            wanted = self._scheduler.num_wanted(now_s)
            self._scheduler.offer([self._prompt(next(self._numbers)) for _ in range(wanted)], now_s)
            decision = self._scheduler.decide(now_s, self._load())
            self._carry_out(decision, now_s)
            if (rewards := self._learn(decision, now_s)) is not None:
                return rewards
            if not (self._have_loaded(now_s) or self._plan(now_s) or self._judge(0.0) or self._play(0.0)):
                self._go_on(has_let_go=bool(decision.ended))

    def _learn(self, decision: Decision, now_s: float) -> dict[str, float] | None:
        """Make the update that is due, and have the engine sample from what it came to."""
        if self._replicas is None:
            return self._train() if decision.load_weights else None
        if decision.load_weights:
            self._replicas.bring()
            self._sent = self.step
        return self._train() if self._plan(now_s) else None

    def _have_loaded(self, now_s: float) -> bool:
        """Whether the last replica has loaded what was sent, which was not known before."""
        if self._sent is None or self._replicas is None or self._replicas.num_behind:
            return False
        self._scheduler.weights_loaded(self._sent, now_s)
        self._sent = None
        return True

    def _load(self) -> Load:
        num_judged_at_once = self._session.recipe.runtime.verifier_workers or self._session.recipe.sandbox.num_workers
        return Load(
            num_slots=self._replicas.num_places if self._replicas else self._session.recipe.engine.max_rows,
            num_waiting=self._stream.num_waiting,
            kv_used=self._engine.kv_used,
            num_waiting_verdicts=max(0, self._verdicts.num_asked - num_judged_at_once),
            num_sandboxes=num_judged_at_once,
        )

    def _prompt(self, number: int) -> Prompt:
        attempt = self._trainer.origin.attempt(number)
        limits = attempt.draw.task.limits
        past = self._ledger.past_scores(self._session.position, attempt.draw.task.prompt_hash)
        return Prompt(
            group_id=attempt.group_id,
            domain=attempt.draw.source.entry.report_name,
            max_tokens=self._most_tokens(attempt),
            max_verify_s=limits.verify_wall_s,
            past_rewards=past.scores if past else (),
            past_version=past.step if past else 0,
        )

    def _most_tokens(self, attempt: Attempt) -> int:
        """How many tokens a member has at most."""
        task, means = attempt.draw.task, self._session.means
        of_turn = min(attempt.params.max_new_tokens, task.limits.max_new_tokens)
        if not isinstance(attempt.draw.source.domain, HasEnvironment):
            return of_turn
        return Limits(config=means.episodes, context=means.context).most_tokens(task, of_turn)

    def _plan(self, now_s: float) -> bool:
        """Whether there is a batch that was not there before; the weights are made once they may be loaded."""
        if self._held is not None or (plan := self._scheduler.next_batch(now_s)) is None:
            return False
        self._held = plan
        self._scheduler.weights_ready(plan.version + 1, now_s)
        return True

    def _go_on(self, *, has_let_go: bool) -> None:
        """Sample, or wait for a verdict where there is nothing to sample, or draw anew for what was let go."""
        if self._stream.num_under_way or (self._replicas and self._replicas.num_behind):
            self._sample()
        elif self._verdicts.num_asked or self._stream.num_in_worlds:
            started = time.monotonic()
            self._wait()
            self._idle_s += time.monotonic() - started
        elif not has_let_go:
            raise InvariantError(f"stage 'rl' cannot go on: {self._scheduler.status(self._clock()).text}")

    def _wait(self) -> None:
        """Wait for a verdict or a world, whichever there is; for both by turns."""
        if not self._stream.num_in_worlds:
            self._judge(_WAIT_S)
        elif not self._verdicts.num_asked:
            self._play(_WAIT_S)
        elif not self._play(_LOOK_S):
            self._judge(_LOOK_S)

    def _awaited(self) -> str:
        """What is waited for, in words; asked from another thread."""
        num_under_way, num_in_worlds = self._stream.num_under_way, self._stream.num_in_worlds
        if num_under_way:
            return f"samples: {num_under_way} under way"
        return f"worlds of {num_in_worlds} episodes" if num_in_worlds else self._session.means.verify_status()

    def _carry_out(self, decision: Decision, now_s: float) -> None:
        for notice in decision.notices:
            self._session.console.print(notice, style="yellow", markup=False)
        cut = [_key(ticket) for ticket in decision.cut]
        ended = [Ended(number_of(group.group_id), group.why) for group in decision.ended]
        started = [_key(start.ticket) for start in decision.start]
        void = {event.number for event in ended} | {number_of(group_id) for group_id in decision.restarted}
        self._recorded = {place: one for place, one in self._recorded.items() if place[0] not in void}
        begun = [key for key in started if (key.number, key.member) not in self._recorded]
        if not (cut or ended or started or decision.restarted):
            return
        with self._ledger.together():
            for group_id in decision.restarted:
                self._ledger.forget(group_id)
            for number in sorted({event.number for event in ended} | {key.number for key in begun}):
                self._issue(number)
            for event in ended:
                self._note_scores(event.number)
            self._ledger.consume(self.step, dropped=[group.group_id for group in decision.ended])
            self._append([*map(Cut, cut), *ended, *map(Began, begun)])
        for key in cut:
            self._stop(key)
        for event in ended:
            self._trainer.note_end(event)
            if event.number in self._stream.pending:
                self._stream.end(event.number)
        for key in begun:
            self._stream.begin(key)
        for key in started:
            if (recorded := self._recorded.pop((key.number, key.member), None)) is not None:
                self._give(key, recorded, now_s, was_kept=True)
        self._check_supply(len(ended), len(started))

    def _check_supply(self, num_ended: int, num_started: int) -> None:
        self._num_let_go = 0 if num_started else self._num_let_go + num_ended
        if self._num_let_go > _LET_GO_IN_A_ROW:
            raise ConfigError(
                f"stage 'rl': the last {self._num_let_go} prompts were let go before they began: "
                f"{self._scheduler.status(self._clock()).text}; raise the budgets in `scheduler`, or lower num_steps"
            )

    def _issue(self, number: int) -> None:
        task = self._stream.draw(number).task
        group_id = self._trainer.origin.group_id(number)
        self._ledger.issue(self._session.position, PENDING, group_id, task.id, task.prompt_hash)

    def _note_scores(self, number: int) -> None:
        """What a group that ends has shown, for the next time that its prompt is drawn."""
        members = self._stream.members(number).values() if number in self._stream.pending else ()
        scores = [score for one in members if (score := self._score(number, one.verdict)) is not None]
        if scores:
            prompt_hash = self._stream.draw(number).task.prompt_hash
            self._ledger.note_scores(self._session.position, prompt_hash, self.step, scores)

    def _score(self, number: int, verdict: Verdict | None) -> float | None:
        """What a member is compared by; None where it has no score."""
        if verdict is None or verdict.kind != "scored":
            return None
        return self._trainer.plan.rules[self._stream.draw(number).source.entry.report_name].signal(verdict)

    def _accounted(self) -> Accounted:
        """What has changed in the accounts of domains."""
        now = self._scheduler.settled_accounts()
        changed = {domain: account for domain, account in now.items() if account != self._accounts.get(domain)}
        self._accounts |= changed
        return Accounted(changed)

    def _stop(self, key: Key) -> None:
        self._stream.cut(key)
        self._verdicts.drop(key)

    def _give(self, key: Key, trajectory: Trajectory, now_s: float, *, was_kept: bool = False) -> None:
        """Tell the scheduler of a member that is sampled, and of its verdict or that it must be asked for."""
        versions = self._trainer.versions
        is_wanted = self._scheduler.sampled(
            _ticket(self._trainer.origin, key), now_s,
            num_tokens=trajectory.num_sampled,
            oldest_version=versions.step_of(trajectory.oldest_version),
            newest_version=versions.step_of(trajectory.newest_version),
            was_kept=was_kept,
        )  # fmt: skip
        if is_wanted and trajectory.verdict is None:
            answer = self._session.means.chat.answer(trajectory.reply)
            self._verdicts.ask(key, self._stream.draw(key.number), answer)
        elif is_wanted:
            self._tell_verdict(key, trajectory, now_s)

    def _tell_verdict(self, key: Key, trajectory: Trajectory, now_s: float) -> None:
        verdict = trajectory.verdict
        assert verdict is not None
        rule = self._trainer.plan.rules[self._stream.draw(key.number).source.entry.report_name]
        score = rule.signal(verdict) if verdict.kind == "scored" else None
        self._scheduler.judged(
            _ticket(self._trainer.origin, key), now_s, kind=verdict.kind, score=score, sandbox_s=verdict.took_s
        )

    def _sample(self) -> None:
        """One step of the engine."""
        finished = self._stream.step()
        if finished or self._replicas is None:
            self._session.means.watchdog.beat()
        if events := self._stream.log(finished):
            self._keep([one for one in finished if isinstance(one, Sample)], events)

    def _play(self, wait_s: float) -> bool:
        """Take what worlds have answered: turns begin, episodes have ended; whether there was any of that."""
        questions, ended = self._stream.play(wait_s)
        if not (questions or ended):
            return False
        asked = [question.asked for question in questions]
        self._keep(ended, [*asked, *(played(sample.key, sample.trajectory) for sample in ended)])
        for question in questions:
            self._stream.ask(question.asked.key, question.request)
        return True

    def _keep(self, finished: Sequence[Sample], events: Sequence[Event]) -> None:
        """Keep what was finished, and tell the scheduler of it."""
        with self._ledger.together():
            for sample in finished:
                self._ledger.replace(sample.trajectory)
            self._append(events)
        now_s = self._clock()
        for sample in finished:
            self._give(sample.key, sample.trajectory, now_s)

    def _judge(self, wait_s: float) -> bool:
        """Take the verdicts that have come; whether there were any."""
        arrived = self._verdicts.take(wait_s)
        if not arrived:
            return False
        self._session.means.watchdog.beat()
        judged = [(key, self._stream.judge(key, verdict, verify_s)) for key, verdict, verify_s in arrived]
        with self._ledger.together():
            for _, trajectory in judged:
                self._ledger.replace(trajectory)
            self._append([judged_event(key, trajectory) for key, trajectory in judged])
        now_s = self._clock()
        for key, trajectory in judged:
            self._tell_verdict(key, trajectory, now_s)
        return True

    def _train(self) -> dict[str, float]:
        """The update that is due."""
        assert self._held is not None
        chosen = tuple(Chosen(number_of(group.group_id), group.members) for group in self._held.groups)
        is_last = self.step + 1 == self._trainer.config.num_steps
        left = [n for n in self._stream.pending if is_last and n not in {group.number for group in chosen}]
        id_of = self._trainer.origin.group_id
        with self._ledger.together():
            self._ledger.consume(
                self.step, ready=[id_of(group.number) for group in chosen], dropped=[id_of(number) for number in left]
            )
            version = self._session.policy.version
            surplus = [Ended(number, "surplus") for number in left]
            for number in [*(group.number for group in chosen), *left]:
                self._note_scores(number)
            self._append([self._accounted(), Trained(self.step, version, chosen), *surplus])
        for event in surplus:
            self._trainer.note_end(event)
        for number in [*(group.number for group in chosen), *left]:
            self._stream.end(number)
        rewards = self._trainer.train(self.step, chosen, self._idle_s)
        if self._replicas is None:
            self._scheduler.weights_loaded(self.step + 1, self._clock())
        self.step, self._held, self._idle_s = self.step + 1, None, 0.0
        return rewards

    def _append(self, events: Sequence[Event]) -> None:
        if events:
            self._ledger.append_events(self._session.position, self._stream.tick, to_json(events))


def _key(ticket: Ticket) -> Key:
    return Key(number_of(ticket.group_id), ticket.member, ticket.attempt)


def _ticket(origin: Origin, key: Key) -> Ticket:
    return Ticket(origin.group_id(key.number), key.member, key.attempt)
