"""Plain facts that a model should keep: capitals, elements, opposites, plurals and more. For evaluation only.

**State**: one question with a short answer, and a request to answer in one word. `knowledge` asks all topics,
`knowledge:capitals` one.

**Action**: one reply.

**Reward**: 1 if the reply is short (at most `MOST_WORDS` words), holds the answer as a whole word, and no other answer
of the same topic (in `FEW_WORDS` words or fewer: of any topic); else 0.

The tables are our own; each fact is one task in one of three phrasings, by seed. It measures what is lost, not what is
known: a model that forgets capitals has forgotten more. Not covered: facts that change, dispute, or need a sentence.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from burnish.core.errors import ConfigError
from burnish.core.seeds import derive
from burnish.core.types import Limits, Message, Split, Task, Verdict
from burnish.domains import Options, task_id
from burnish.domains.evaluation_only import no_options, place
from burnish.rewards.thinking import after_thinking
from burnish.sandbox import Box

MOST_WORDS, FEW_WORDS, MOST_CHARACTERS = 25, 5, 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """Phrasings with a place for the subject, and the answer to each subject."""

    asks: tuple[str, ...]
    facts: Mapping[str, str]


def _table(text: str) -> dict[str, str]:
    return dict(entry.split("=") for entry in text.split("; "))


TOPICS: Mapping[str, Topic] = {
    "capitals": Topic(
        asks=("What is the capital of {}?", "Name the capital city of {}.", "Which city is the capital of {}?"),
        facts=_table(
            "France=Paris; Germany=Berlin; Italy=Rome; Spain=Madrid; Portugal=Lisbon; Greece=Athens; Egypt=Cairo; "
            "Japan=Tokyo; China=Beijing; Russia=Moscow; Austria=Vienna; Poland=Warsaw; Norway=Oslo; Sweden=Stockholm; "
            "Finland=Helsinki; Denmark=Copenhagen; Ireland=Dublin; Hungary=Budapest; Cuba=Havana; Peru=Lima; "
            "Canada=Ottawa; Kenya=Nairobi; Thailand=Bangkok; Iraq=Baghdad; Iran=Tehran; Belgium=Brussels; "
            "Argentina=Buenos Aires; Chile=Santiago; Bulgaria=Sofia; Turkey=Ankara"
        ),
    ),
    "symbols": Topic(
        asks=(
            "Which element has the chemical symbol {}?",
            "The chemical symbol {} stands for which element?",
            "Name the element whose symbol is {}.",
        ),
        facts=_table(
            "H=hydrogen; He=helium; O=oxygen; N=nitrogen; C=carbon; Fe=iron; Au=gold; Ag=silver; Cu=copper; Na=sodium; "
            "K=potassium; Ca=calcium; Cl=chlorine; Pb=lead; Hg=mercury; Zn=zinc; Sn=tin; Ni=nickel; Al=aluminum; "
            "Mg=magnesium"
        ),
    ),
    "opposites": Topic(
        asks=('What is the opposite of "{}"?', 'Give the antonym of "{}".', 'Which word means the opposite of "{}"?'),
        facts=_table(
            "hot=cold; up=down; big=small; fast=slow; light=dark; old=young; rich=poor; full=empty; happy=sad; "
            "open=closed; left=right; day=night; war=peace; love=hate; hard=soft; early=late; strong=weak; true=false; "
            "high=low; inside=outside"
        ),
    ),
    "numbers": Topic(
        asks=(
            "How many {}? Answer with a number.",
            "Tell me how many {}, as a number.",
            "The question is how many {}. Give the number.",
        ),
        facts=_table(
            "days are in a week=7; months are in a year=12; hours are in a day=24; minutes are in an hour=60; "
            "legs does a spider have=8; legs does an insect have=6; sides has a triangle=3; "
            "letters has the English alphabet=26; "
            "cents are in a dollar=100; planets circle the sun=8; sides has a hexagon=6; "
            "centimetres are in a metre=100; "
            "grams are in a kilogram=1000; days are in a leap year=366; seconds are in a minute=60; "
            "strings has a violin=4"
        ),
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Knowledge:
    """The facts of some topics."""

    name: str
    facts: tuple[tuple[str, str], ...]
    """Topic and subject of each."""
    executes_code: bool = False

    def size(self, split: Split) -> int | None:
        """Each fact is a task; nothing trains."""
        return 0 if split == "train" else len(self.facts)

    def task(self, split: Split, seed: int, index: int) -> Task:
        """The fact at a place of the shuffled list, in one of its phrasings."""
        topic, subject = self.facts[place(self.name, len(self.facts), split, seed, index)]
        ask = Random(derive(seed, self.name, subject)).choice(TOPICS[topic].asks).format(subject)
        answer = TOPICS[topic].facts[subject]
        return Task(
            id=task_id(self.name, split, seed, index),
            domain=self.name,
            messages=(Message(role="user", content=f"{ask} Answer in one word."),),
            truth={"topic": topic, "answer": answer},
            gold=answer,
            limits=Limits(max_new_tokens=24),
            tags=(f"topic:{topic}",),
        )

    async def verify(self, task: Task, reply: str, box: Box) -> Verdict:
        """Look for the answer, and for others of the topic."""
        said = after_thinking(reply) or ""
        answer = str(task.truth["answer"])
        asked = TOPICS[str(task.truth["topic"])]
        topics = TOPICS.values() if len(said.split()) <= FEW_WORDS else [asked]
        others = {other for topic in topics for other in topic.facts.values()} - {answer}
        if len(said) > MOST_CHARACTERS or len(said.split()) > MOST_WORDS:
            return Verdict.scored(0.0, evidence=f"longer than {MOST_WORDS} words, which is no answer")
        wrong = sorted(other for other in others if _holds(said, other))
        is_right = _holds(said, answer) and not wrong
        return Verdict.scored(float(is_right), evidence=f"expected {answer}" + (f", also {wrong[0]}" if wrong else ""))


def _holds(said: str, answer: str) -> bool:
    return re.search(rf"(?<![\w.,]){re.escape(answer)}(?![\w]|[.,]\d)", said, re.IGNORECASE) is not None


def load(argument: str, options: Options) -> Knowledge:
    """Open one topic, or all."""
    name = f"knowledge:{argument}" if argument else "knowledge"
    no_options(name, options)
    if argument and argument not in TOPICS:
        raise ConfigError(f"domain {name!r}: no topic {argument!r}; there are: {', '.join(TOPICS)}")
    wanted = [argument] if argument else list(TOPICS)
    return Knowledge(name=name, facts=tuple((topic, subject) for topic in wanted for subject in TOPICS[topic].facts))
