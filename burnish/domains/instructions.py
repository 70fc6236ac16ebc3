"""Following instructions that a program can check: one or two on a small request. For evaluation only.

**State**: a request ("Describe a lighthouse") and instructions such as "Write in small letters only". Option
`num_instructions` (1 to 3, default 1).

**Action**: one reply.

**Reward**: 1 if all instructions are followed (`instruction_rules`, in the strict reading: the reply as it is), else 0.
The part `followed` is the share of them.

The subjects, instructions and bounds are drawn; what is written about the subject is not judged. An empty reply follows
nothing. The subject must be named, so that one text does not serve all requests, and the instructions must not be said
back, so that the request is no answer to itself.
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from pydantic import Field

from burnish.core.config import Strict, validate
from burnish.core.seeds import derive
from burnish.core.types import Json, Limits, Message, Split, Task, Verdict
from burnish.domains import Options, evaluation_only, task_id
from burnish.domains.instruction_rules import count, follows
from burnish.rewards.thinking import after_thinking
from burnish.sandbox import Box

SUBJECTS = (
    "a lighthouse; a bicycle; the moon; a bakery; a violin; an island; a desert; a library; a thunderstorm; a market; "
    "a glacier; a beehive; a harbour; a garden; a compass; a windmill; a volcano; a telescope; a river; a kitchen"
).split("; ")
REQUESTS = ("Describe {}.", "Write something short about {}.", "Say in a few words what is special about {}.")
WORDS = "quiet river yellow ancient engine window copper silver gentle north winter bridge".split()

Made = tuple[str, str, dict[str, Json]]
"""What is asked, and the rule with its arguments."""


def _words(rng: Random) -> Made:
    num = rng.choice((20, 25, 30))
    rule: dict[str, Json] = {"num_words": num, "relation": "less than"}
    return f"Use fewer than {num} words.", "length_constraints:number_words", rule


def _keyword(rng: Random) -> Made:
    word = rng.choice(WORDS)
    return f'Use the word "{word}".', "keywords:existence", {"keywords": [word]}


def _bullets(rng: Random) -> Made:
    num = rng.randint(2, 4)
    ask = f"Write exactly {num} bullet points, each on a line that begins with *."
    return ask, "detectable_format:number_bullet_lists", {"num_bullets": num}


def _ending(rng: Random) -> Made:
    phrase = f"That is all about the {rng.choice(WORDS)} {rng.choice(WORDS)}."
    return f'End with the sentence "{phrase}"', "startend:end_checker", {"end_phrase": phrase}


MAKERS: tuple[Callable[[Random], Made], ...] = (
    _words,
    _keyword,
    _bullets,
    _ending,
    lambda rng: ("Use no comma.", "punctuation:no_comma", {}),
    lambda rng: ("Write in small letters only.", "change_case:english_lowercase", {}),
    lambda rng: ("Write in CAPITAL LETTERS only.", "change_case:english_capital", {}),
    lambda rng: ("Put the whole answer in double quotation marks.", "startend:quotation", {}),
    lambda rng: ("Give it a title in double angle brackets, such as <<title>>.", "detectable_format:title", {}),
)
CONFLICTS = ({"change_case:english_lowercase", "change_case:english_capital", "startend:end_checker"},
             {"startend:quotation", "startend:end_checker"},
             {"detectable_format:number_bullet_lists", "startend:end_checker"},
             {"detectable_format:number_bullet_lists", "startend:quotation"})  # fmt: skip
"""Of each set at most one is asked for."""


class InstructionsOptions(Strict):
    """Options of the domain."""

    num_instructions: int = Field(default=1, ge=1, le=3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Instructions:
    """Requests drawn without end."""

    num_instructions: int
    name: str = "instructions"
    executes_code: bool = False

    def size(self, split: Split) -> int | None:
        """Without end; nothing trains."""
        return evaluation_only.size(split)

    def task(self, split: Split, seed: int, index: int) -> Task:
        """Draw a subject and its instructions."""
        evaluation_only.evaluates(self.name, split)
        rng = Random(derive(seed, self.name, self.num_instructions, index))
        subject = rng.choice(SUBJECTS)
        made = _together(rng, self.num_instructions)
        asked = " ".join([rng.choice(REQUESTS).format(subject), *(ask for ask, _, _ in made)])
        rules: list[Json] = [[rule, arguments] for _, rule, arguments in made]
        return Task(
            id=task_id(self.name, split, seed, index),
            domain=self.name,
            messages=(Message(role="user", content=asked),),
            truth={"subject": subject.split()[-1], "rules": rules, "asks": [ask for ask, _, _ in made]},
            limits=Limits(max_new_tokens=96),
            tags=tuple(rule for _, rule, _ in made),
        )

    async def verify(self, task: Task, reply: str, box: Box) -> Verdict:
        """Check each instruction, and that the subject is named."""
        said, rules, asks = after_thinking(reply) or "", task.truth["rules"], task.truth["asks"]
        assert isinstance(rules, list) and isinstance(asks, list)
        if any(str(ask).casefold() in said.casefold() for ask in asks):
            return Verdict.scored(0.0, {"followed": 0.0, "on_topic": 0.0}, "says its instructions back")
        pairs = [(str(each[0]), each[1]) for each in rules if isinstance(each, list)]
        missed = [rule for rule, given in pairs if not isinstance(given, dict) or not follows(rule, given, said)]
        is_on_topic = count(said, str(task.truth["subject"])) > 0
        parts = {"followed": 1 - len(missed) / len(pairs), "on_topic": float(is_on_topic)}
        evidence = f"did not follow {', '.join(missed)}" if missed else "followed all" if is_on_topic else "off topic"
        return Verdict.scored(float(is_on_topic and not missed), parts, evidence)


def _together(rng: Random, num: int) -> list[Made]:
    """Instructions that can be followed together."""
    while True:
        made = [make(rng) for make in rng.sample(MAKERS, num)]
        rules = {rule for _, rule, _ in made}
        if all(len(rules & conflict) < 2 for conflict in CONFLICTS):
            return made


def load(argument: str, options: Options) -> Instructions:
    """Open the domain; it takes no argument."""
    evaluation_only.no_argument("instructions", argument)
    config = validate(InstructionsOptions, options, "domain 'instructions'")
    return Instructions(num_instructions=config.num_instructions)
