"""Verdicts in batches: submit replies, get promises; the same answer is never paid for twice.

`submit` first looks the answer up: in what is being judged at this moment (a request joins it), then in the
cache. Else it queues; `num_at_once` are judged at a time, lower `priority` numbers first, in order of arrival among
equals. At most `most_waiting` wait; beyond that `submit` itself waits, first come first served.

Decisions:
- Time in the queue does not count, neither against a task's limit nor in `Verdict.took_s`. A timeout or an
  infrastructure error is tried again, `num_attempts` in all.
- A verdict depends on domain, task and reply, never on the order in which others were asked for.
- A share of verdicts is found twice (`recheck_share`, of paid ones and of hits; which, is drawn by seed, answer and
  how often it was asked). Two scores on one answer flag the task, too many such tasks the domain: their rows go, and
  none is kept again. The first verdict that was really found is the one that is handed out.
- Where a domain has a second implementation, it audits a share; a verdict on which the two differ is not kept.
- Whoever stops waiting (cancels its promise) is forgotten; a verdict that nobody waits for is not judged to its end.
Only this module writes to the cache. Not covered: sharing of requests in flight between processes.
"""

import asyncio
import heapq
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

from burnish.core.errors import SandboxError
from burnish.core.seeds import derive
from burnish.core.types import Task, Verdict
from burnish.domains import Domain, HasSecondOpinion
from burnish.rewards.verdict_cache import Cache, Question
from burnish.rollout.verification_questions import domain_question, exact_form, normal_form
from burnish.rollout.verification_report import DomainReport, Tally
from burnish.runtime.workers import PoolBroken
from burnish.sandbox import Box

Promise = asyncio.Future[Verdict]
Verify = Callable[[Domain, Task, str, Box], Awaitable[Verdict]]
LEAST_CHECKED = 20
"""A domain is flagged on no fewer second looks than these."""
MOST_COUNTED = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """Which verdicts are looked at twice."""

    seed: int = 0
    recheck_share: float = 0.0
    audit_share: float = 0.0
    flaky_limit: float = 0.1
    """Above this share of differing second looks the whole domain is flaky."""


@dataclass(eq=False, slots=True, kw_only=True)
class _Work:
    """One answer to judge, and who waits for it."""

    domain: Domain
    task: Task
    reply: str
    question: Question | None
    forms: list[str] = field(default_factory=list[str])
    cached: Verdict | None = None
    waiting: list[Promise] = field(default_factory=list[Promise])
    running: asyncio.Task[None] | None = None
    asked_s: float = field(default_factory=time.monotonic)
    is_dropped: bool = False

    @property
    def addresses(self) -> list[tuple[int, str, str]]:
        """Under which an equal request finds it."""
        return [(id(self.domain), self.task.content_hash, form) for form in self.forms]


class Verification:
    """Judges replies in one box. Lives in one event loop; `stop` when done."""

    def __init__(
        self, box: Box, *, num_at_once: int, num_attempts: int = 3, most_waiting: int = 1024,
        cache: Cache | None = None, sampling: Sampling | None = None, environment: str = "",
        verify: Verify | None = None,
    ) -> None:  # fmt: skip
        """`verify` calls a domain's verifier, here or elsewhere.

        `environment` is what, beside this package and the interpreter, decides what code finds in the box."""
        self._verify = verify or _verify_here
        self._box, self._num_at_once, self._num_attempts = box, num_at_once, num_attempts
        self._cache, self._sampling, self._environment = cache, sampling or Sampling(), environment
        self._room = asyncio.Semaphore(most_waiting)
        self._queue: list[tuple[int, int, _Work]] = []
        self._num_queued = 0
        self._running: set[asyncio.Task[None]] = set()
        self._unanswered: dict[int, _Work] = {}
        self._in_flight: dict[tuple[int, str, str], _Work] = {}
        self._questions: dict[int, tuple[Domain, Question | None]] = {}
        self._num_asked: Counter[int] = Counter()
        self._flagged: set[str] = set()
        self._tallies: defaultdict[str, Tally] = defaultdict(Tally)
        self._checked: Counter[str] = Counter()
        self._disagreed: Counter[str] = Counter()
        self._is_stopped = False

    async def verdict(self, domain: Domain, task: Task, reply: str, *, priority: int = 0) -> Verdict:
        """Judge a reply, or look its verdict up."""
        return await (await self.submit(domain, task, reply, priority=priority))

    async def submit(self, domain: Domain, task: Task, reply: str, *, priority: int = 0) -> Promise:
        """Ask for a verdict; returns its promise, as soon as there is room for it."""
        work = _Work(domain=domain, task=task, reply=reply, question=self._question(domain, task))
        found = await self._known(work, exact_form(reply))
        if found is None and work.question is not None and (form := normal_form(domain, task, reply)) is not None:
            found = await self._known(work, form)
        if isinstance(found, asyncio.Future):
            return found
        if found is not None:
            assert work.question is not None
            if not self._is_drawn("again", work.question.key(work.forms[0]), self._sampling.recheck_share):
                return self._given(found)
            work.cached = found
        await self._room.acquire()
        if self._is_stopped:
            self._room.release()  # the next that waits for room must hear of it too
            raise asyncio.CancelledError("the verification was stopped")
        if joined := self._join(work):
            self._room.release()
            return joined
        return self._enqueue(work, priority)

    def take_report(self) -> dict[str, DomainReport]:
        """What came to pass since the last call, by domain."""
        tallies, self._tallies = self._tallies, defaultdict(Tally)
        return {name: tally.report() for name, tally in tallies.items()}

    def status(self) -> str:
        """What is being judged and what waits, in words; may be asked from another thread."""
        works = list(self._unanswered.values())
        oldest = min(works, key=lambda work: work.asked_s, default=None)
        if oldest is None:
            return "verdicts: none is being judged"
        num_busy = sum(work.running is not None for work in works)
        age_s = time.monotonic() - oldest.asked_s
        return (
            f"verdicts: {num_busy} being judged, {len(works) - num_busy} queued; "
            f"the oldest is of task {oldest.task.id!r}, asked for {age_s:.0f} s ago"
        )

    async def stop(self) -> None:
        """Give up what waits and what runs; safe to call twice."""
        self._is_stopped = True
        for _, _, work in self._queue:
            _cancel(work.waiting)
            self._room.release()
        self._queue.clear()
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        self._in_flight.clear()
        self._unanswered.clear()

    # What is known already

    def _question(self, domain: Domain, task: Task) -> Question | None:
        """What the verdict depends on; None where it may not be kept."""
        if self._cache is None:
            return None
        if id(domain) not in self._questions:  # the domain is kept beside it, so that its id stays its own
            self._questions[id(domain)] = (domain, domain_question(domain, self._box, self._environment))
        question = self._questions[id(domain)][1]
        if question is None or question.domain_key in self._flagged:
            return None
        question = replace(question, task=task.content_hash)
        return None if question.task_key in self._flagged else question

    async def _known(self, work: _Work, form: str) -> Promise | Verdict | None:
        """A promise to join or a kept verdict, for one form of the answer."""
        work.forms.append(form)
        if joined := self._join(work):
            return joined
        if work.question is None or self._cache is None:
            return None
        key = work.question.key(form)
        found = self._cache.look_up(key) if self._cache.is_quick else await asyncio.to_thread(self._cache.look_up, key)
        if found is not None:
            self._tallies[work.domain.name].given(found, "num_hits")
            if len(work.forms) > 1:  # under the reply itself, the next look-up is quicker
                await asyncio.to_thread(self._cache.keep, work.question, work.forms[:1], found)
        return found

    def _join(self, work: _Work) -> Promise | None:
        for address in work.addresses:
            if (other := self._in_flight.get(address)) is not None:
                promise = self._promise(other)
                promise.add_done_callback(lambda done: self._count_joined(work.domain.name, done))
                return promise
        return None

    def _count_joined(self, domain: str, promise: Promise) -> None:
        if not promise.cancelled() and promise.exception() is None:
            self._tallies[domain].given(promise.result(), "num_joined")

    def _given(self, verdict: Verdict) -> Promise:
        promise: Promise = asyncio.get_running_loop().create_future()
        promise.set_result(verdict)
        return promise

    # The queue

    def _enqueue(self, work: _Work, priority: int) -> Promise:
        promise = self._promise(work)
        for address in work.addresses:
            self._in_flight[address] = work
        self._num_queued += 1
        self._unanswered[id(work)] = work
        heapq.heappush(self._queue, (priority, self._num_queued, work))
        self._start_some()
        return promise

    def _promise(self, work: _Work) -> Promise:
        promise: Promise = asyncio.get_running_loop().create_future()
        work.waiting.append(promise)
        promise.add_done_callback(lambda done: self._give_up(work) if done.cancelled() else None)
        return promise

    def _give_up(self, work: _Work) -> None:
        """Nobody waits any more: do not start it, or stop it."""
        if any(not promise.done() for promise in work.waiting) or work.is_dropped:
            return
        work.is_dropped = True
        self._forget(work)
        if work.running is not None:
            work.running.cancel()

    def _forget(self, work: _Work) -> None:
        self._unanswered.pop(id(work), None)
        for address in work.addresses:
            if self._in_flight.get(address) is work:
                del self._in_flight[address]

    def _start_some(self) -> None:
        while self._queue and len(self._running) < self._num_at_once:
            _, _, work = heapq.heappop(self._queue)
            self._room.release()
            if not work.is_dropped:
                work.running = asyncio.create_task(self._run(work))
                self._running.add(work.running)
                work.running.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if not self._is_stopped:
            self._start_some()

    async def _run(self, work: _Work) -> None:
        started = time.monotonic()
        try:
            verdict = await self._judge(work)
        except asyncio.CancelledError:
            _cancel(work.waiting)
            raise
        except Exception as error:  # noqa: BLE001  whoever waits must hear of a fault of ours
            for promise in work.waiting:
                if not promise.done():
                    promise.set_exception(error)
        else:
            _give(work.waiting, verdict, time.monotonic() - started)
        finally:
            work.is_dropped = True
            self._forget(work)

    # Judging

    async def _judge(self, work: _Work) -> Verdict:
        started = time.monotonic()
        verdict = await self._found(work)
        if work.cached is None:
            tally = self._tallies[work.domain.name]
            tally.paid(time.monotonic() - started)
            tally.given(verdict, "num_paid")
        earlier = work.cached or await self._second_look(work, verdict)
        if earlier is not None and self._differs(work, earlier, verdict):
            return verdict
        if work.cached is not None:
            return work.cached
        is_objected = await self._audit_objects(work, verdict)
        if work.question is not None and self._cache is not None and not is_objected:
            await asyncio.to_thread(self._cache.keep, work.question, work.forms, verdict)
        return verdict

    async def _found(self, work: _Work) -> Verdict:
        """Verify, again after a timeout or a fault of the machinery."""
        for _ in range(self._num_attempts - 1):
            verdict = await self._once(work)
            if verdict.kind in ("scored", "unscorable"):
                return verdict
        return await self._once(work)

    async def _once(self, work: _Work) -> Verdict:
        verifying = self._verify(work.domain, work.task, work.reply, self._box)
        verdict = await _within(work.task, work.domain.name, verifying)
        assert verdict is not None
        return verdict

    async def _second_look(self, work: _Work, verdict: Verdict) -> Verdict | None:
        name = f"{work.task.content_hash} {work.reply}"
        if verdict.kind != "scored" or not self._is_drawn("again", name, self._sampling.recheck_share):
            return None
        return await self._found(work)

    def _differs(self, work: _Work, one: Verdict, other: Verdict) -> bool:
        """Compare two verdicts on one answer; flag the task, and perhaps the domain, where the scores differ."""
        name, tally = work.domain.name, self._tallies[work.domain.name]
        if one.kind != "scored" or other.kind != "scored":
            return False
        tally.counts["num_checked_again"] += 1
        self._checked[name] += 1
        if one.score == other.score:
            return False
        tally.counts["num_flaky"] += 1
        self._disagreed[name] += 1
        if work.question is not None:
            self._flag(work.question.task_key)
            is_enough = self._checked[name] >= LEAST_CHECKED
            if is_enough and self._disagreed[name] > self._sampling.flaky_limit * self._checked[name]:
                self._flag(work.question.domain_key)
        return True

    def _flag(self, owner: str) -> None:
        self._flagged.add(owner)
        if self._cache is not None:
            self._cache.flag(owner)

    async def _audit_objects(self, work: _Work, verdict: Verdict) -> bool:
        """Whether a second implementation, where one is asked, finds another score."""
        name = f"{work.task.content_hash} {work.reply}"
        if not isinstance(work.domain, HasSecondOpinion) or verdict.kind != "scored":
            return False
        if not self._is_drawn("audit", name, self._sampling.audit_share):
            return False
        other = await _within(work.task, work.domain.name, work.domain.second_opinion(work.task, work.reply, self._box))
        if other is None or other.kind != "scored":
            return False
        tally = self._tallies[work.domain.name]
        tally.counts.update({"num_audited": 1, "num_audits_disagree": int(other.score != verdict.score)})
        return other.score != verdict.score

    def _is_drawn(self, what: str, name: str, share: float) -> bool:
        """Draw by seed, name, and how often this name was asked for: the same draws in whatever order."""
        if share <= 0:
            return False
        if len(self._num_asked) > MOST_COUNTED:
            self._num_asked.clear()
        short = derive(0, name)  # a name holds a whole reply, and many are kept
        self._num_asked[short] += 1
        return derive(self._sampling.seed, what, name, self._num_asked[short]) < share * 2**63


async def _verify_here(domain: Domain, task: Task, reply: str, box: Box) -> Verdict:
    return await domain.verify(task, reply, box)


async def _within(task: Task, domain: str, verifying: Awaitable[Verdict | None]) -> Verdict | None:
    try:
        async with asyncio.timeout(task.limits.verify_wall_s):
            return await verifying
    except TimeoutError:
        return Verdict.timed_out(f"no verdict within {task.limits.verify_wall_s} s")
    except SandboxError as error:
        return Verdict.infrastructure_error(str(error))
    except PoolBroken:
        raise  # nothing can be judged any more, of whatever domain
    except Exception as error:  # noqa: BLE001  the one boundary: a domain's own fault must neither stop a run nor score
        return Verdict.unscorable(f"the verifier of {domain} raised {type(error).__name__}: {error}")


def _give(promises: list[Promise], verdict: Verdict, took_s: float) -> None:
    """Hand a verdict out; the first that is still waited for has cost the time, the others nothing."""
    for promise in promises:
        if not promise.done():
            promise.set_result(replace(verdict, took_s=took_s))
            took_s = 0.0


def _cancel(promises: list[Promise]) -> None:
    for promise in promises:
        promise.cancel()
