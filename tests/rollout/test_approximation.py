"""A cheap verifier judges most replies in training, is measured against the full one, and may lose its place."""

import asyncio
from dataclasses import dataclass, field

import pytest

from burnish.core.errors import ConfigError
from burnish.core.recipe import TaskEntry
from burnish.core.types import Message, Split, Task, Verdict
from burnish.rollout.approximation import LEAST_COMPARED, Approximate, approximated, approximations
from burnish.rollout.mixture import Source
from tests.no_box import NoBox


@dataclass
class TwoVerifiers:
    """The full verifier pays a right reply; the quick one pays whatever is said, and so errs on each wrong reply."""

    name: str = "two"
    executes_code: bool = False
    judged: list[str] = field(default_factory=list)

    def size(self, split: Split) -> int | None:
        return None

    def task(self, split: Split, seed: int, index: int) -> Task:
        return Task(id=f"two/{index}", domain="two", messages=(Message(role="user", content=str(index)),), truth={})

    async def verify(self, task: Task, reply: str, box: object) -> Verdict:
        self.judged.append("full")
        return Verdict.scored(float(reply.startswith("right")))

    async def quick_verdict(self, task: Task, reply: str, box: object) -> Verdict:
        self.judged.append("quick")
        return Verdict.scored(1.0)


class OneVerifier:
    """A domain without a cheap verifier."""

    name = "one"
    executes_code = False
    size = TwoVerifiers.size
    task = TwoVerifiers.task
    verify = TwoVerifiers.verify


def wrapped(full_share: float) -> tuple[TwoVerifiers, Approximate]:
    domain = TwoVerifiers()
    source = Source(entry=TaskEntry(domain="two"), domain=domain)
    sources = approximated([source], seed=1, full_share=full_share, most_disagreement=0.1)
    return domain, approximations(sources)["two"]


def verdicts(domain: Approximate, replies: list[str]) -> list[Verdict]:
    task = domain.task("train", 1, 0)
    return [asyncio.run(domain.verify(task, reply, NoBox())) for reply in replies]


def test_most_replies_are_judged_quickly_and_say_so() -> None:
    domain, approximate = wrapped(0.25)
    given = verdicts(approximate, [f"right {n}" for n in range(200)])
    num_full = domain.judged.count("full")
    assert 25 <= num_full <= 75
    assert sum("approximate" in verdict.parts for verdict in given) == 200 - num_full
    assert approximate.metrics()["approximate/two/num_compared"] == num_full
    assert not approximate.has_fallen_back


def test_the_same_replies_are_compared_in_whatever_order() -> None:
    replies = [f"right {n}" for n in range(60)]
    one, other = wrapped(0.3)[1], wrapped(0.3)[1]
    forward = dict(zip(replies, verdicts(one, replies), strict=True))
    backward = dict(zip(replies[::-1], verdicts(other, replies[::-1]), strict=True))
    assert forward == backward


def test_where_both_judge_the_full_verdict_counts() -> None:
    _, approximate = wrapped(0.5)
    given = verdicts(approximate, [f"wrong {n}" for n in range(10)])
    assert {verdict.score for verdict in given if "approximate" not in verdict.parts} == {0.0}


def test_a_cheap_verifier_that_errs_too_often_judges_no_more() -> None:
    domain, approximate = wrapped(0.5)
    verdicts(approximate, [f"wrong {n}" for n in range(60)])
    assert approximate.has_fallen_back
    assert approximate.num_compared == approximate.num_differing == LEAST_COMPARED
    domain.judged.clear()
    assert [verdict.score for verdict in verdicts(approximate, ["wrong again", "right again"])] == [0.0, 1.0]
    assert domain.judged == ["full", "full"]


def test_a_cheap_verifier_that_gives_no_score_where_the_full_one_does_errs() -> None:
    domain, approximate = wrapped(0.5)

    async def no_score(task: Task, reply: str, box: object) -> Verdict:
        return Verdict.unscorable("too hard to tell")

    domain.quick_verdict = no_score
    verdicts(approximate, [f"right {n}" for n in range(60)])
    assert approximate.has_fallen_back


def test_a_full_share_of_1_leaves_the_domains_as_they_are() -> None:
    source = Source(entry=TaskEntry(domain="one"), domain=OneVerifier())
    assert approximated([source], seed=1, full_share=1, most_disagreement=0.1) == [source]


def test_a_share_for_domains_without_a_cheap_verifier_is_refused() -> None:
    source = Source(entry=TaskEntry(domain="one"), domain=OneVerifier())
    with pytest.raises(ConfigError, match=r"no domain here has a cheap verifier \(one\)"):
        approximated([source], seed=1, full_share=0.5, most_disagreement=0.1)
