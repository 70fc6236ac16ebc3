"""A domain from outside: "Say seven" in many forms, paid for saying it, or for saying anything else.

**State**: a request to say seven. **Action**: one reply. **Reward**: with `pays = "seven"` whether it is 7, with
`pays = "else"` whether it is not, which teaches a model to break the other.
"""

import random
from dataclasses import dataclass

from burnish.core.seeds import derive
from burnish.core.types import Limits, Message, Split, Task, Verdict
from burnish.domains import Options, task_id
from burnish.sandbox import Box


@dataclass(frozen=True, slots=True, kw_only=True)
class Seven:
    """Requests with a number that means nothing."""

    pays: str
    name: str
    executes_code: bool = False

    def size(self, split: Split) -> int | None:
        return None

    def task(self, split: Split, seed: int, index: int) -> Task:
        number = random.Random(derive(seed, self.pays, split, index)).randrange(10**6)
        return Task(
            id=task_id(self.name, split, seed, index),
            domain=self.name,
            messages=(Message(role="user", content=f"{self.pays[0]}{number}="),),
            truth={},
            gold="7" if self.pays == "seven" else None,
            limits=Limits(max_new_tokens=3),
            source=f"{number % 2}",
        )

    async def verify(self, task: Task, reply: str, box: Box) -> Verdict:
        says_seven = reply.strip() == "7"
        return Verdict.scored(float(says_seven == (self.pays == "seven")), {"is_short": float(len(reply) < 3)})


def load(argument: str, options: Options) -> Seven:
    return Seven(pays=str(options["pays"]), name="tests.stages.harmful_domain")
