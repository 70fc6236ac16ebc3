"""A box for tests in which nothing may run; apart from `fakes.py`, whose import takes torch."""

from burnish.sandbox import Job, Outcome


class NoBox:
    isolation = "none"

    async def run(self, job: Job) -> Outcome:
        raise AssertionError("nothing runs here")

    async def stop(self) -> None:
        return
