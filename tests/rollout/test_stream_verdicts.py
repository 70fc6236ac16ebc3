import asyncio

from burnish.core.recipe import TaskEntry
from burnish.core.types import Task, Verdict
from burnish.domains import Domain, open_domain
from burnish.rollout.mixture import Draw, Source
from burnish.rollout.stream_log import Key
from burnish.rollout.stream_verdicts import BackgroundVerdicts
from burnish.runtime.local import Background

SOURCE = Source(entry=TaskEntry(domain="arithmetic"), domain=open_domain("arithmetic"))
DRAW = Draw(0, SOURCE, SOURCE.domain.task("train", 1, 0))
FIRST, SECOND = Key(0, 0, 0), Key(0, 1, 0)


class Gates:
    """A judge that gives a verdict once the reply's gate is open."""

    def __init__(self, background: Background) -> None:
        self._background = background
        self.open_for: dict[str, asyncio.Event] = {}
        self.cancelled: list[str] = []

    async def __call__(self, domain: Domain, task: Task, reply: str) -> Verdict:
        try:
            await self.open_for.setdefault(reply, asyncio.Event()).wait()
        except asyncio.CancelledError:
            self.cancelled.append(reply)
            raise
        return Verdict.scored(1.0, evidence=reply)

    def open(self, reply: str) -> None:
        async def opened() -> None:
            self.open_for.setdefault(reply, asyncio.Event()).set()

        self._background.run(opened())


def test_verdicts_are_taken_in_the_order_in_which_they_come_and_none_is_waited_for_in_vain() -> None:
    with Background() as background:
        gates = Gates(background)
        verdicts = BackgroundVerdicts(gates, background)
        verdicts.ask(FIRST, DRAW, "a")
        verdicts.ask(SECOND, DRAW, "b")
        assert verdicts.take() == []
        for key, reply in ((SECOND, "b"), (FIRST, "a")):
            gates.open(reply)
            ((came, verdict, _),) = verdicts.take(wait_s=10.0)
            assert (came, verdict.evidence) == (key, reply)
        assert verdicts.num_asked == 0


def test_a_dropped_verdict_is_cancelled_and_never_comes() -> None:
    with Background() as background:
        gates = Gates(background)
        verdicts = BackgroundVerdicts(gates, background)
        verdicts.ask(FIRST, DRAW, "a")
        gates.open("b")  # by now the first has begun to wait
        verdicts.drop(FIRST)
        verdicts.ask(SECOND, DRAW, "b")
        ((came, _, _),) = verdicts.take(wait_s=10.0)
        verdicts.stop()
        verdicts.stop()
        assert came == SECOND
        assert gates.cancelled == ["a"]
