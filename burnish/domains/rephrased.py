"""Held-out tasks of another domain with other words around them: is it the task that was learned, or its form?

`rephrased:DOMAIN` takes DOMAIN's argument and options, for example `rephrased:rg:chain_sum`. For evaluation only.

**State**: the inner domain's; its last message stands in one of `FRAMES`, by seed.

**Action**: the inner domain's.

**Reward**: the inner domain's.

Beside the suite of the plain domain it shows what a frame costs (`burnish eval` on both; the same seed draws the same
tasks). Covered: domains of one reply. Not covered: other words within a task's own text, which no rule can be trusted
to find; domains of several turns.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Final

from burnish.core.errors import ConfigError
from burnish.core.seeds import derive
from burnish.core.types import Message, Split, Task, Verdict
from burnish.domains import Domain, HasEnvironment, Options, evaluation_only, open_domain, task_id
from burnish.sandbox import Box

FRAMES: Final[Sequence[str]] = (
    "Could you help me with something?\n\n{}\n\nThank you in advance!",
    "A colleague left me this and went home. Please do what it asks.\n\n{}",
    "Hi! I have been sitting over the following for a while now, and I would be glad of a second pair of eyes.\n\n{}",
    "{}\n\nThat is all there is to it.",
    "Next item on my list:\n{}",
    "The request reads as follows.\n---\n{}\n---",
)
"""None asks for anything, so that the task's own rules about the form of a reply hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rephrased:
    """See the module's docstring."""

    inner: Domain

    @property
    def name(self) -> str:
        """With the inner domain's."""
        return f"rephrased:{self.inner.name}"

    @property
    def executes_code(self) -> bool:
        """As the inner domain."""
        return self.inner.executes_code

    def size(self, split: Split) -> int | None:
        """As many as the inner domain evaluates on; nothing trains."""
        return 0 if split == "train" else self.inner.size(split)

    def task(self, split: Split, seed: int, index: int) -> Task:
        """The inner domain's task in a frame."""
        evaluation_only.evaluates(self.name, split)
        task = self.inner.task(split, seed, index)
        *before, last = task.messages
        frame = Random(derive(seed, self.name, index)).choice(FRAMES)
        asked = Message(role=last.role, content=frame.replace("{}", last.content))
        return replace(
            task, id=task_id(self.name, split, seed, index), domain=self.name, messages=(*before, asked)
        )  # fmt: skip

    async def verify(self, task: Task, reply: str, box: Box) -> Verdict:
        """Ask the inner domain."""
        return await self.inner.verify(replace(task, domain=self.inner.name), reply, box)


def load(argument: str, options: Options) -> Rephrased:
    """Open the inner domain."""
    if not argument:
        raise ConfigError("domain 'rephrased' needs another domain; write for example rephrased:documents")
    inner = open_domain(argument, options)
    if isinstance(inner, HasEnvironment):
        raise ConfigError(f"domain 'rephrased:{argument}': tasks of {argument!r} take several turns; take another")
    return Rephrased(inner=inner)
