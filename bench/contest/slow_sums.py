"""The domain `arithmetic`, whose verdicts come late.

**State.** The question, for example `3+4=`. **Action.** One reply. **Reward.** That of `arithmetic`.

Options: `largest` as there, and `median_s` and `sigma` of a log-normal delay, which follows from task and reply.
"""

import asyncio
import random
from dataclasses import dataclass, replace

from pydantic import Field

from burnish.core.config import Strict, validate
from burnish.core.seeds import derive
from burnish.core.types import Split, Task, Verdict
from burnish.domains import Options, task_id
from burnish.domains.arithmetic import Arithmetic
from burnish.sandbox import Box


class Delay(Strict):
    """The options."""

    largest: int = Field(9, ge=1)
    median_s: float = Field(0.25, gt=0)
    sigma: float = Field(1.0, ge=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowSums:
    """See the module's docstring."""

    sums: Arithmetic
    delay: Delay
    name: str = "bench.contest.slow_sums"
    executes_code: bool = False

    def size(self, split: Split) -> int | None:
        """Without end."""
        return None

    def task(self, split: Split, seed: int, index: int) -> Task:
        """One question."""
        task = self.sums.task(split, seed, index)
        return replace(task, id=task_id(self.name, split, seed, index), domain=self.name)

    async def verify(self, task: Task, reply: str, box: Box) -> Verdict:
        """Judge, after the delay."""
        drawn = random.Random(derive(1, "delay", task.id, reply))
        await asyncio.sleep(self.delay.median_s * drawn.lognormvariate(0.0, self.delay.sigma))
        return await self.sums.verify(task, reply, box)


def load(argument: str, options: Options) -> SlowSums:
    """Open the domain."""
    delay = validate(Delay, dict(options), "domain 'bench.contest.slow_sums'")
    return SlowSums(sums=Arithmetic(largest=delay.largest), delay=delay)
