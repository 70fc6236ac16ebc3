"""Retention: facts scattered over a text that is mostly about something else. For evaluation only.

**State**: a text of `num_sentences` sentences (default 20) with `num_facts` facts among them ("The number of the blue
locker is 4817."), and a question for all of them.

**Action**: one reply, the numbers in the order in which they are asked for, or with their names.

**Reward**: 1 if all asked numbers stand in the reply and no other number of three digits or more does, else 0. The part
`retained` is the share of asked facts that do (information retention); the tag `depth:N` says in which tenth of the
text the first asked fact stood.

In RULER's manner (Hsieh et al., https://arxiv.org/abs/2404.06654: several keys, some of them asked), with plain
sentences about other things as filler. Options: `num_facts` (1 to 8, default 1), `num_others`, how many facts are there
and not asked for (default: as many again), `num_sentences`. Not covered: facts that must be joined, texts longer than
the model's window.
"""

import re
from dataclasses import dataclass
from random import Random

from pydantic import Field

from burnish.core.config import Strict, validate
from burnish.core.seeds import derive
from burnish.core.types import Json, Limits, Message, Split, Task, Verdict
from burnish.domains import Options, evaluation_only, task_id
from burnish.rewards.thinking import after_thinking
from burnish.sandbox import Box

LEAST_DIGITS = 3
COLOURS = "blue red green yellow white black grey brown orange purple".split()
THINGS = "locker cabin ticket drawer trunk parcel wagon booth".split()
SUBJECTS = "The gardener; A neighbour; The old clerk; Our guide; The captain; A student; The baker; My cousin".split(
    "; "
)
VERBS = "walked to; painted; forgot; wrote about; waited near; talked about; looked after; dreamed of".split("; ")
OBJECTS = (
    "the quiet harbour; a wooden bridge; the long corridor; an empty theatre; the morning train; the apple trees; "
    "a broken umbrella; the stone church; the frozen lake; a small orchestra"
).split("; ")
WHENS = "on Monday; after lunch; in the rain; last summer; before the concert; at night; every spring".split("; ")


class RecallOptions(Strict):
    """Options of the domain."""

    num_facts: int = Field(default=1, ge=1, le=8)
    num_others: int | None = Field(default=None, ge=0, le=8)
    num_sentences: int = Field(default=20, ge=0, le=20_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recall:
    """Texts drawn without end."""

    num_facts: int
    num_others: int
    num_sentences: int
    name: str = "recall"
    executes_code: bool = False

    def size(self, split: Split) -> int | None:
        """Without end; nothing trains."""
        return evaluation_only.size(split)

    def task(self, split: Split, seed: int, index: int) -> Task:
        """Draw facts and what stands around them."""
        evaluation_only.evaluates(self.name, split)
        rng = Random(derive(seed, self.name, self.num_facts, self.num_sentences, index))
        all_names = [f"{colour} {thing}" for colour in COLOURS for thing in THINGS]
        names = rng.sample(all_names, self.num_facts + self.num_others)
        numbers = rng.sample(range(1000, 9999), len(names))
        facts = dict(zip(names, map(str, numbers), strict=True))
        lines = [
            f"{rng.choice(SUBJECTS)} {rng.choice(VERBS)} {rng.choice(OBJECTS)} {rng.choice(WHENS)}."
            for _ in range(self.num_sentences)
        ]
        for name, number in facts.items():
            lines.insert(rng.randint(0, len(lines)), f"The number of the {name} is {number}.")
        asked = names[: self.num_facts]
        depth = next(place for place, line in enumerate(lines) if asked[0] in line) / len(lines)
        question = f"What is the number of {_listed([f'the {name}' for name in asked])}?"
        form = "number" if self.num_facts == 1 else "numbers"
        truth: dict[str, Json] = {
            "asked": [facts[name] for name in asked],
            "depth": depth,
        }
        return Task(
            id=task_id(self.name, split, seed, index),
            domain=self.name,
            messages=(Message(role="user", content=f"{' '.join(lines)}\n\n{question} Answer with the {form} alone."),),
            truth=truth,
            gold=", ".join(facts[name] for name in asked),
            limits=Limits(max_new_tokens=16 + 16 * self.num_facts),
            tags=(f"depth:{int(depth * 10)}",),
        )

    async def verify(self, task: Task, reply: str, box: Box) -> Verdict:
        """Count the numbers of the text that the reply holds."""
        said = set(re.findall(r"(?<![\d.,])\d+(?![\d]|[.,]\d)", after_thinking(reply) or ""))
        asked = task.truth["asked"]
        assert isinstance(asked, list)
        share = sum(number in said for number in asked) / len(asked)
        strays = {number for number in said if number not in asked and len(number) >= LEAST_DIGITS}
        evidence = f"holds {share:.0%} of what was asked" + (f", and {min(strays)}, which was not" if strays else "")
        return Verdict.scored(float(share == 1 and not strays), {"retained": share}, evidence)


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def load(argument: str, options: Options) -> Recall:
    """Open the domain; it takes no argument."""
    evaluation_only.no_argument("recall", argument)
    config = validate(RecallOptions, options, "domain 'recall'")
    num_others = config.num_facts if config.num_others is None else config.num_others
    return Recall(num_facts=config.num_facts, num_others=num_others, num_sentences=config.num_sentences)
