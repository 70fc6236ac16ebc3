"""A domain whose scores a script says, however replies read: of "110" the third evaluation of its tasks is worth 0.

**State**: a number. **Action**: any reply. **Reward**: what is written of this evaluation; 1 behind the script's end.
"""

from collections import Counter
from dataclasses import dataclass

from burnish.core.types import Limits, Message, Split, Task, Verdict
from burnish.domains import Options, task_id
from burnish.sandbox import Box

NUM = 12
asked: Counter[str] = Counter()
"""By script, how many replies were judged so far: of one process, by all that opened the domain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fading:
    """Twelve tasks."""

    script: str
    name: str = "tests.stages.fading_domain"
    executes_code: bool = False

    def size(self, split: Split) -> int | None:
        return NUM if split == "eval" else 0

    def task(self, split: Split, seed: int, index: int) -> Task:
        return Task(
            id=task_id(self.name, split, seed, index), domain=self.name, truth={}, limits=Limits(max_new_tokens=3),
            messages=(Message(role="user", content=f"{index}"),),
        )  # fmt: skip

    async def verify(self, task: Task, reply: str, box: Box) -> Verdict:
        number = asked[self.script] // NUM
        asked[self.script] += 1
        return Verdict.scored(float(self.script[number : number + 1] != "0"))


def load(argument: str, options: Options) -> Fading:
    return Fading(script=str(options["script"]))
