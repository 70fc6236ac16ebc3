"""The domain `arithmetic`, whose replies pass through a sandbox on their way to the verdict.

**State.** The question, for example `3+4=`. **Action.** One reply. **Reward.** That of `arithmetic`.
"""

from dataclasses import dataclass, replace

from burnish.core.errors import SandboxError
from burnish.core.types import Split, Task, Verdict
from burnish.domains import Options, task_id
from burnish.domains.arithmetic import Arithmetic
from burnish.sandbox import Box, Job, ResourceLimits

ECHO = "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read())"
PATIENT = ResourceLimits(wall_s=60.0)
"""A busy host is not what is tried here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxedSums:
    """See the module's docstring."""

    sums: Arithmetic
    name: str = "tests.chaos.boxed_sums"
    executes_code: bool = True

    def size(self, split: Split) -> int | None:
        """Without end."""
        return None

    def task(self, split: Split, seed: int, index: int) -> Task:
        """One question."""
        task = self.sums.task(split, seed, index)
        return replace(task, id=task_id(self.name, split, seed, index), domain=self.name)

    async def verify(self, task: Task, reply: str, box: Box) -> Verdict:
        """Judge what the sandbox gives back of the reply."""
        outcome = await box.run(Job(source=ECHO, stdin=reply.encode(errors="replace"), limits=PATIENT))
        if outcome.ending != "exited":
            raise SandboxError(f"the echo of a reply ended as {outcome.ending!r}")
        return await self.sums.verify(task, outcome.stdout.decode(), box)


def load(argument: str, options: Options) -> BoxedSums:
    """Open the domain."""
    return BoxedSums(sums=Arithmetic(largest=5))
