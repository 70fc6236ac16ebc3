"""Maths, logic and puzzles: `domain = "rg:chain_sum"` for (almost) any generator of reasoning-gym.

**State**: one generated question, with a line that asks for the answer alone. Options are the generator's own
settings, such as `min_terms = 2`; `burnish check` names the known ones.

**Action**: one reply. Its answer is what follows the last line that begins with `Answer:`, else its last line
(else the whole, where answers have several lines); `rg_answers` has the exact rule.

**Reward**: 1 if the generator's own scorer pays in full for the answer, else 0; what the scorer said is the
part `scorer`. Its fractions do not count: in 27 generators a right answer with anything beside it gets half or more.

Decisions:
- The scorer runs in the sandbox (`rg_worker`), since some evaluate the answer as Python. What holds: an
  answer reaches such a scorer only if it is arithmetic by a pattern checked out here (`rg_answers`), so it has no
  means to write to the answer descriptor or to stop the process with a score of its own; all other scorers
  handle the answer as data. An answer that makes a scorer raise, or run into its limits, after it took the
  reference answer is wrong and scores 0; a scorer that does not pay for the reference is `unscorable`.
- `train` and `eval` draw from different seeds, and a question belongs to one of them by its hash, so that no
  prompt is in both however small the generator's space is (`EVAL_SHARE` of all questions are eval's).
- A question whose reference answer is not of the answers' own form (an integral that was left undone) is passed over.
- Blocks of `BLOCK` items share a generator's set-up; a task depends on nothing but split, seed and index.
- Where the reference is one number, our own exact comparison is the second opinion that audits a sample.
- Some generators are refused with a reason (`rg_answers.EXCLUDED`): wrong scorers, tasks that change from run to run.
Covered: reasoning-gym 0.1.25. Not covered: its curricula, partial credit.
"""

import hashlib
import importlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import NamedTuple, Protocol, cast

from burnish.core.errors import ConfigError
from burnish.core.seeds import derive
from burnish.core.types import Json, Limits, Message, Split, Task, Verdict
from burnish.domains import Options, task_id
from burnish.domains.rg_answers import EXCLUDED, complaint, extract
from burnish.domains.rg_verdict import judge
from burnish.rewards.final_number import is_same_number
from burnish.rewards.numbers import single
from burnish.sandbox import Box, Job, ResourceLimits

PACKAGE = "reasoning_gym"
BLOCK = 64
EVAL_SHARE = 0.25
MOST_DRAWS = 400
OWN_SETTINGS = ("seed", "size")
"""Settings of every generator that the domain sets itself."""

ONE_LINE = "Give only the final answer, on one line."
SEVERAL_LINES = "Give only the final answer."

REFERENCES: Mapping[str, Callable[[Mapping[str, object]], str]] = {
    "graph_color": lambda metadata: json.dumps(metadata["possible_answer"]),
    "rubiks_cube": lambda metadata: str(metadata["example_correct_answer"]),
}
"""Generators that name no answer, because many are right, and keep one beside."""

PLAIN_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,29})(?:\.[0-9]{1,30})?")
"""No zeros before it: those stand in codes and in other bases, which are no numbers."""
WORKER = Path(__file__).with_name("rg_worker.py").read_text(encoding="utf-8")
JOB_LIMITS = ResourceLimits(wall_s=20.0, cpu_s=10.0, memory_mb=1024, num_processes=8, output_bytes=1 << 16)


class Place(NamedTuple):
    """Where a question stands: enough to make it again."""

    seed: int
    item: int


class Dataset(Protocol):
    """What we use of a generator."""

    def __getitem__(self, item: int) -> Mapping[str, object]:
        """Make one entry: question, answer, metadata."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasoningGym:
    """One generator with its settings."""

    name: str
    generator: str
    settings: str
    """The options as canonical JSON, so that they can be a cache's key."""
    executes_code: bool = True

    def size(self, split: Split) -> int | None:
        """Generated without end."""
        return None

    def task(self, split: Split, seed: int, index: int) -> Task:
        """Draw questions until one belongs to the split."""
        place, question, reference = self._draw(split, seed, index)
        is_one_line = reference is not None and "\n" not in reference
        return Task(
            id=task_id(self.name, split, seed, index),
            domain=self.name,
            messages=(
                Message(role="user", content=f"{question.strip()}\n{ONE_LINE if is_one_line else SEVERAL_LINES}"),
            ),
            truth={"seed": place.seed, "item": place.item, "question": _sha256(question), "reference": reference},
            gold=reference,
            limits=Limits(max_new_tokens=max_new_tokens(reference), verify_wall_s=JOB_LIMITS.wall_s + 5),
            source=f"rg/{self.generator}",
        )

    def _draw(self, split: Split, seed: int, index: int) -> tuple[Place, str, str | None]:
        block, item = divmod(index, BLOCK)
        for draw in range(MOST_DRAWS):
            place = Place(derive(seed, self.name, split, block, draw) % 2**31, item)
            entry = _dataset(self.generator, self.settings, place.seed)[item]
            question, reference = str(entry["question"]), _reference(self.generator, entry)
            is_usable = reference is None or not complaint(self.generator, reference, reference)
            if is_usable and belongs_to(question) == split:
                return place, question, reference
        raise ConfigError(
            f"domain {self.name!r}: of {MOST_DRAWS} questions none belongs to {split}; with the options"
            f" {self.settings} there are too few different ones; widen the settings"
        )

    async def verify(self, task: Task, reply: str, box: Box) -> Verdict:
        """Extract the answer, check its shape here, and let the generator's scorer judge it in the sandbox."""
        reference = task.truth["reference"]
        assert reference is None or isinstance(reference, str)
        answer = extract(reply, is_one_line=reference is not None and "\n" not in reference)
        if why := complaint(self.generator, reference, answer):
            return Verdict.scored(0.0, {"scorer": 0.0}, why)
        work: dict[str, Json] = {
            "generator": self.generator,
            "config": json.loads(self.settings),
            "seed": task.truth["seed"],
            "size": BLOCK,
            "item": task.truth["item"],
            "reference": reference,
            "answer": answer,
        }
        job = Job(source=WORKER, stdin=json.dumps(work).encode(), preload=(PACKAGE,), limits=JOB_LIMITS)
        return judge(await box.run(job), question=str(task.truth["question"]), answer=answer)

    async def second_opinion(self, task: Task, reply: str, box: Box) -> Verdict | None:
        """Compare exactly and without the scorer, where the reference answer is one number."""
        reference = task.truth["reference"]
        if not isinstance(reference, str) or not PLAIN_NUMBER.fullmatch(reference):
            return None
        expected, answer = single(reference), single(extract(reply, is_one_line=True))
        assert expected is not None
        is_same = answer is not None and answer.value is not None and is_same_number(expected, answer)
        return Verdict.scored(
            float(is_same), evidence=f"compared exactly: {'the same' if is_same else 'another'} number"
        )


def load(argument: str, options: Options) -> ReasoningGym:
    """Open a generator; `ConfigError` for an unknown or excluded one, and for settings that it does not take."""
    if argument in EXCLUDED:
        raise ConfigError(f"domain 'rg:{argument}' is excluded: {EXCLUDED[argument]}; choose another generator")
    known = _config_classes()
    if argument not in known:
        close = get_close_matches(argument, known, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"there are: {', '.join(known)}"
        raise ConfigError(f"domain 'rg:{argument}': no generator {argument!r}; {hint}")
    settings = [field.name for field in fields(known[argument]) if field.name not in OWN_SETTINGS]
    for key in options:
        if key not in settings:
            raise ConfigError(f"domain 'rg:{argument}': unknown option {key!r}; known options: {', '.join(settings)}")
    domain = ReasoningGym(name=f"rg:{argument}", generator=argument, settings=json.dumps(dict(options), sort_keys=True))
    _try_settings(domain)
    return domain


def belongs_to(question: str) -> Split:
    """The split of a question, by its hash."""
    return "eval" if int(_sha256(question)[:13], 16) / 16**13 < EVAL_SHARE else "train"


def max_new_tokens(reference: str | None) -> int:
    """Room for an answer of twice the reference's length, at two characters a token."""
    return 512 if reference is None else min(512, 24 + len(reference))


def _try_settings(domain: ReasoningGym) -> None:
    try:
        domain.task("train", 0, 0)
    except (AssertionError, ValueError, TypeError, IndexError, KeyError) as error:
        reason = str(error) or f"its own check failed ({type(error).__name__})"
        raise ConfigError(
            f"domain {domain.name!r}: the generator refuses the options {domain.settings}: {reason}"
        ) from None


def _package() -> ModuleType:
    """Import reasoning-gym, which takes a second or two, when a generator is first opened."""
    try:
        return importlib.import_module(PACKAGE)
    except ModuleNotFoundError as error:
        if error.name != PACKAGE:
            raise
        raise ConfigError("domain 'rg' needs the package reasoning-gym; pip install 'burnish[domains]'") from None


def _config_classes() -> Mapping[str, type]:
    registry = cast(Mapping[str, tuple[type, type]], _package().factory.DATASETS)
    return {name: config for name, (_, config) in sorted(registry.items()) if name not in EXCLUDED}


@lru_cache(maxsize=32)
def _dataset(generator: str, settings: str, seed: int) -> Dataset:
    return cast(Dataset, _package().create_dataset(generator, **json.loads(settings), seed=seed, size=BLOCK))


def _reference(generator: str, entry: Mapping[str, object]) -> str | None:
    if generator in REFERENCES:
        return REFERENCES[generator](cast(Mapping[str, object], entry["metadata"]))
    return None if entry["answer"] is None else str(entry["answer"]).strip()


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
