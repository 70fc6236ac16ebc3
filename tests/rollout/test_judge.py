import asyncio
from dataclasses import dataclass, field, replace

import pytest

from burnish.core.errors import SandboxError
from burnish.core.types import Split, Task, Verdict
from burnish.domains import open_domain
from burnish.rollout.judge import judge_in
from burnish.sandbox import Box
from tests.no_box import NoBox


@dataclass
class Flaky:
    """A domain whose verifier goes through a script of faults before it answers."""

    faults: list[BaseException | float]
    name: str = "flaky"
    executes_code: bool = False
    num_calls: int = 0
    at_once: list[int] = field(default_factory=list)

    def size(self, split: Split) -> int | None:
        return None

    def task(self, split: Split, seed: int, index: int) -> Task:
        task = open_domain("arithmetic").task(split, seed, index)
        return replace(task, limits=replace(task.limits, verify_wall_s=0.05))

    async def verify(self, task: Task, reply: str, box: Box) -> Verdict:
        self.num_calls += 1
        fault = self.faults.pop(0) if self.faults else 0.0
        if isinstance(fault, BaseException):
            raise fault
        await asyncio.sleep(fault)
        return Verdict.scored(1.0)


def judge(domain: Flaky) -> Verdict:
    return asyncio.run(judge_in(NoBox(), num_at_once=2)(domain, domain.task("train", 1, 0), "reply"))


@pytest.mark.parametrize(
    ("faults", "kind", "num_calls"),
    [
        ([], "scored", 1),
        ([SandboxError("down")], "scored", 2),  # machinery is tried again
        ([SandboxError("down")] * 3, "infrastructure_error", 3),
        ([9.0], "scored", 2),
        ([9.0] * 3, "timeout", 3),
        ([ValueError("bug")], "unscorable", 1),  # a bug is not: it would come again
    ],
)
def test_a_failing_verifier_never_scores(faults: list[BaseException | float], kind: str, num_calls: int) -> None:
    domain = Flaky(list(faults))
    verdict = judge(domain)
    assert verdict.kind == kind
    assert domain.num_calls == num_calls
    assert (verdict.score is None) == (kind != "scored")


def test_time_in_the_queue_does_not_count() -> None:
    domain = Flaky([0.03] * 12)

    async def all_at_once() -> list[Verdict]:
        judge = judge_in(NoBox(), num_at_once=2)
        return await asyncio.gather(*(judge(domain, domain.task("train", 1, i), "reply") for i in range(12)))

    assert {verdict.kind for verdict in asyncio.run(all_at_once())} == {"scored"}
