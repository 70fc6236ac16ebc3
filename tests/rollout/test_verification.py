"""The queue, the joins, the cache and the second looks, with a verifier that does what it is told."""

import asyncio
import sys
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from burnish.core.types import Message, Split, Task, Verdict
from burnish.rewards.verdict_cache import open_cache
from burnish.rollout.verification import Sampling, Verification
from burnish.rollout.verification_report import as_metrics
from tests.no_box import NoBox


@dataclass
class Scripted:
    """Scores by `score(reply, number of the call)`; notes what it was asked, waits for `gate` if there is one."""

    score: Callable[[str, int], float] = lambda reply, call: float(reply.strip() == "right")
    name: str = "scripted"
    executes_code: bool = False
    identity: str | None = "1"
    asked: list[str] = field(default_factory=list)
    gate: asyncio.Event | None = None
    second: float | None = None
    num_cancelled: int = 0

    def size(self, split: Split) -> int | None:
        return None

    def task(self, split: Split, seed: int, index: int) -> Task:
        prompt = (Message(role="user", content=str(index)),)
        return Task(id=f"scripted/{split}/{seed}/{index}", domain=self.name, messages=prompt, truth={})

    def cache_identity(self) -> str | None:
        return self.identity

    def answer_key(self, task: Task, reply: str) -> str | None:
        return reply.strip()

    async def second_opinion(self, task: Task, reply: str, box: object) -> Verdict | None:
        return None if self.second is None else Verdict.scored(self.second)

    async def verify(self, task: Task, reply: str, box: object) -> Verdict:
        self.asked.append(reply)
        try:
            await (self.gate.wait() if self.gate else asyncio.sleep(0))
        except asyncio.CancelledError:
            self.num_cancelled += 1
            raise
        return Verdict.scored(self.score(reply, len(self.asked)), {"tampered": 0.0})


DOMAIN = Scripted()
TASK = DOMAIN.task("train", 1, 0)


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


def test_a_repeat_is_a_hit_also_in_another_process_and_another_form(tmp_path: Path) -> None:
    first, again = Scripted(), Scripted()

    async def judge(domain: Scripted, *replies: str) -> list[Verdict]:
        cache = open_cache(str(tmp_path / "v.sqlite"))
        verification = Verification(NoBox(), num_at_once=2, cache=cache)
        verdicts = [await verification.verdict(domain, TASK, reply) for reply in replies]
        cache.close()
        return verdicts

    assert [v.from_cache for v in run(judge(first, "right", "right ", "wrong"))] == [False, True, False]
    verdicts = run(judge(again, "right", " right", "wrong"))
    assert [(v.from_cache, v.score) for v in verdicts] == [(True, 1.0), (True, 1.0), (True, 0.0)]
    assert again.asked == []


def test_a_verdict_says_how_long_it_was_judged_without_the_queue_and_once_for_equal_replies() -> None:
    domain = replace(Scripted(), gate=asyncio.Event())

    async def judge() -> list[Verdict]:
        verification = Verification(NoBox(), num_at_once=1)
        promises = [await verification.submit(domain, TASK, reply) for reply in ("right", "right", "wrong")]
        assert domain.gate is not None
        asyncio.get_running_loop().call_later(0.2, domain.gate.set)
        return list(await asyncio.gather(*promises))

    first, joined, queued = run(judge())
    assert first.took_s >= 0.2
    assert joined.took_s == 0.0
    assert 0 < queued.took_s < 0.2


def test_a_domain_that_may_not_be_kept_is_asked_each_time(tmp_path: Path) -> None:
    domain = Scripted(identity=None)

    async def twice() -> None:
        verification = Verification(NoBox(), num_at_once=2, cache=open_cache(str(tmp_path / "v.sqlite")))
        for _ in range(2):
            await verification.verdict(domain, TASK, "right")

    run(twice())
    assert len(domain.asked) == 2


def test_equal_requests_in_flight_are_paid_once() -> None:
    domain = Scripted()

    async def many() -> dict[str, float]:
        domain.gate = asyncio.Event()
        verification = Verification(NoBox(), num_at_once=2)
        promises = [await verification.submit(domain, TASK, "right") for _ in range(5)]
        domain.gate.set()
        assert {verdict.score for verdict in await asyncio.gather(*promises)} == {1.0}
        return as_metrics(verification.take_report())

    metrics = run(many())
    assert domain.asked == ["right"]
    assert metrics["verify/scripted/num_verdicts"] == 5
    assert metrics["verify/scripted/num_joined"] == 4
    assert metrics["verify/scripted/num_paid"] == 1


def test_lower_priority_numbers_go_first_and_equals_in_order() -> None:
    domain = Scripted()

    async def in_order() -> None:
        domain.gate = asyncio.Event()
        verification = Verification(NoBox(), num_at_once=1)
        wanted = [("first", 5), ("late", 9), ("b", 1), ("c", 1), ("urgent", 0)]
        promises = [await verification.submit(domain, TASK, reply, priority=rank) for reply, rank in wanted]
        domain.gate.set()
        await asyncio.gather(*promises)

    run(in_order())
    assert domain.asked == ["first", "urgent", "b", "c", "late"]


def test_the_status_names_the_oldest_task_and_how_many_are_busy() -> None:
    async def body() -> list[str]:
        domain = Scripted(gate=asyncio.Event())
        verification = Verification(NoBox(), num_at_once=2)
        promises = [await verification.submit(domain, domain.task("train", 1, n), f"reply {n}") for n in range(5)]
        await asyncio.sleep(0)
        told = [verification.status()]
        assert domain.gate
        domain.gate.set()
        await asyncio.gather(*promises)
        return [*told, verification.status()]

    during, after = run(body())
    assert during.startswith(
        "verdicts: 2 being judged, 3 queued; the oldest is of task 'scripted/train/1/0', asked for 0 s"
    )
    assert after == "verdicts: none is being judged"


def test_submit_waits_where_too_many_wait() -> None:
    domain = Scripted()

    async def overfull() -> bool:
        domain.gate = asyncio.Event()
        verification = Verification(NoBox(), num_at_once=1, most_waiting=2)
        for number in range(3):  # one runs, two wait
            await verification.submit(domain, TASK, str(number))
        blocked = asyncio.create_task(verification.submit(domain, TASK, "one too many"))
        await asyncio.sleep(0.01)
        was_blocked = not blocked.done()
        domain.gate.set()
        await (await blocked)
        return was_blocked

    assert run(overfull())
    assert len(domain.asked) == 4


def test_what_nobody_waits_for_is_not_judged() -> None:
    domain = Scripted()

    async def given_up() -> float | None:
        domain.gate = asyncio.Event()
        verification = Verification(NoBox(), num_at_once=1)
        running = await verification.submit(domain, TASK, "running")
        queued = await verification.submit(domain, TASK, "queued")
        shared = [await verification.submit(domain, TASK, "right") for _ in range(2)]
        await asyncio.sleep(0)
        for promise in (running, queued, shared[0]):
            promise.cancel()
        await asyncio.sleep(0)
        domain.gate.set()
        return (await shared[1]).score

    assert run(given_up()) == 1.0
    assert domain.asked == ["running", "right"]
    assert domain.num_cancelled == 1


def test_stop_ends_what_runs_and_what_waits() -> None:
    domain = Scripted()

    async def stopped() -> list[bool]:
        domain.gate = asyncio.Event()
        verification = Verification(NoBox(), num_at_once=1)
        promises = [await verification.submit(domain, TASK, reply) for reply in "abc"]
        await asyncio.sleep(0)
        await verification.stop()
        await verification.stop()
        return [promise.cancelled() for promise in promises]

    assert run(stopped()) == [True] * 3
    assert domain.num_cancelled == 1


def test_stop_also_ends_who_waits_for_room() -> None:
    domain = Scripted()

    async def stopped() -> list[object]:
        domain.gate = asyncio.Event()
        verification = Verification(NoBox(), num_at_once=1, most_waiting=1)
        for reply in "ab":
            await verification.submit(domain, TASK, reply)
        blocked = [asyncio.create_task(verification.submit(domain, TASK, reply)) for reply in "cd"]
        await asyncio.sleep(0.01)
        await verification.stop()
        return await asyncio.wait_for(asyncio.gather(*blocked, return_exceptions=True), 5)

    assert [type(one) for one in run(stopped())] == [asyncio.CancelledError] * 2


ALWAYS = Sampling(seed=1, recheck_share=1.0, flaky_limit=0.1)


def test_a_task_with_two_verdicts_is_flagged_dropped_and_not_kept(tmp_path: Path) -> None:
    domain = Scripted(score=lambda reply, call: float(call == 2))

    async def twice() -> tuple[Verdict, Verdict, dict[str, float]]:
        cache = open_cache(str(tmp_path / "v.sqlite"))
        verification = Verification(NoBox(), num_at_once=1, cache=cache, sampling=ALWAYS)
        one = await verification.verdict(domain, TASK, "x")
        other = await Verification(NoBox(), num_at_once=1, cache=cache).verdict(domain, TASK, "x")
        return one, other, as_metrics(verification.take_report())

    one, other, metrics = run(twice())
    assert (one.score, one.from_cache, other.from_cache) == (0.0, False, False)
    assert metrics["verify/scripted/num_flaky"] == 1


def test_a_hit_that_is_not_found_again_is_replaced_by_what_was_found(tmp_path: Path) -> None:
    domain = Scripted()

    async def changed() -> tuple[Verdict, Verdict]:
        cache = open_cache(str(tmp_path / "v.sqlite"))
        await Verification(NoBox(), num_at_once=1, cache=cache).verdict(domain, TASK, "right")
        domain.score = lambda reply, call: 0.25
        one = await Verification(NoBox(), num_at_once=1, cache=cache, sampling=ALWAYS).verdict(domain, TASK, "right")
        return one, await Verification(NoBox(), num_at_once=1, cache=cache).verdict(domain, TASK, "right")

    one, other = run(changed())
    assert (one.score, one.from_cache) == (0.25, False)
    assert not other.from_cache


def test_too_many_flaky_tasks_make_a_flaky_domain(tmp_path: Path) -> None:
    domain = Scripted(score=lambda reply, call: float(call % 2))

    async def all_tasks() -> Verdict:
        cache = open_cache(str(tmp_path / "v.sqlite"))
        verification = Verification(NoBox(), num_at_once=1, cache=cache, sampling=ALWAYS)
        for number in range(20):
            await verification.verdict(domain, domain.task("train", 1, number), "x")
        steady = replace(domain, score=lambda reply, call: 1.0)
        plain = Verification(NoBox(), num_at_once=1, cache=cache)
        await plain.verdict(steady, domain.task("train", 1, 99), "x")
        return await plain.verdict(steady, domain.task("train", 1, 99), "x")

    assert not run(all_tasks()).from_cache


@pytest.mark.parametrize(
    ("second", "is_kept", "num_audited", "num_disagree"), [(1.0, True, 1, 0), (0.0, False, 2, 2), (None, True, 0, 0)]
)
def test_a_second_implementation_audits(
    tmp_path: Path, second: float, is_kept: bool, num_audited: int, num_disagree: int
) -> None:
    domain = Scripted(second=second)

    async def audited() -> tuple[Verdict, dict[str, float]]:
        cache = open_cache(str(tmp_path / "v.sqlite"))
        verification = Verification(NoBox(), num_at_once=1, cache=cache, sampling=Sampling(audit_share=1.0))
        await verification.verdict(domain, TASK, "right")
        return await verification.verdict(domain, TASK, "right"), as_metrics(verification.take_report())

    verdict, metrics = run(audited())
    assert verdict.from_cache == is_kept
    assert metrics.get("verify/scripted/num_audits_disagree", 0) == num_disagree
    assert metrics.get("verify/scripted/num_audited", 0) == num_audited


def test_what_is_not_kept_is_audited_too() -> None:
    async def audited() -> dict[str, float]:
        verification = Verification(NoBox(), num_at_once=1, sampling=Sampling(audit_share=1.0))
        await verification.verdict(Scripted(second=0.0), TASK, "right")
        return as_metrics(verification.take_report())

    assert run(audited())["verify/scripted/num_audits_disagree"] == 1


@pytest.mark.parametrize("num_at_once", [1, 7])
def test_verdicts_and_second_looks_do_not_depend_on_scheduling(tmp_path: Path, num_at_once: int) -> None:
    domain = Scripted(score=lambda reply, call: len(reply) / 20)

    async def shuffled() -> tuple[list[float | None], float]:
        sampling = Sampling(seed=3, recheck_share=0.3)
        verification = Verification(NoBox(), num_at_once=num_at_once, sampling=sampling)
        replies = ["x" * (number % 10) + "y" * (number // 10) for number in range(40)]
        verdicts = await asyncio.gather(*(verification.verdict(domain, TASK, reply) for reply in replies))
        metrics = as_metrics(verification.take_report())
        return [verdict.score for verdict in verdicts], metrics["verify/scripted/num_checked_again"]

    scores, num_checked = run(shuffled())
    assert scores == [(number % 10 + number // 10) / 20 for number in range(40)]
    assert num_checked == 7  # as the seed draws them


def test_what_is_kept_for_the_draws_does_not_grow_with_the_replies() -> None:
    async def kept() -> list[int]:
        sampling = Sampling(recheck_share=1.0, audit_share=1.0)
        verification = Verification(NoBox(), num_at_once=1, sampling=sampling)
        await verification.verdict(Scripted(second=1.0), TASK, "x" * 100_000)
        return [sys.getsizeof(name) for name in verification._num_asked]

    sizes = run(kept())
    assert sizes
    assert max(sizes) < 1000
