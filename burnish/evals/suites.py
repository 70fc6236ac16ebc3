"""A suite: a TOML file that pins what is asked, how replies are drawn, and which layer of behaviour it speaks of.

```toml
layer = "single_step"     # single_step, multi_step, cross_scenario, safety or regression
about = "What it shows, in one line."
seed = 1
samples = 4               # replies a task, for pass@k and pass^k
temperature = 0.8
prompts = "sha256:..."    # what the tasks come to; `burnish suites show NAME` prints it
[[tasks]]
domain = "documents"
num_eval = 100
```

Decisions: a suite is known by what it asks (`content_hash`: prompts, truths, limits, draws), never by its name, so that
two results are compared only where they answered the same. With `prompts` set, a suite whose tasks come out otherwise
(another version of a package) is refused and not silently another suite. `held_out = true` refuses models of runs
that trained on any of its domains. `chance` is what a guess may score; `weakness` tries whether one scores more.
Covered: files, and those that ship in `burnish/suites`. Not covered: suites whose next task depends on the last reply.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self, get_args

from pydantic import Field, model_validator

from burnish.core.config import Strict, read_toml, validate
from burnish.core.errors import ConfigError
from burnish.core.recipe import EpisodesConfig, SandboxConfig, TaskEntry
from burnish.core.seeds import derive
from burnish.core.types import sha256_json
from burnish.domains import open_domain
from burnish.rollout.mixture import Draw, Source, held_out

Layer = Literal["single_step", "multi_step", "cross_scenario", "safety", "regression"]
LAYERS: tuple[Layer, ...] = get_args(Layer)
SHIPPED = Path(__file__).parent.parent / "suites"
LM_EVAL = "lm_eval:"
"""Before the name of a task of lm-evaluation-harness, which is named as if it were a suite."""
COINCIDENCE = 0.1
"""What a guess may score where a suite does not say: open answers are right by accident that often at most."""


class Suite(Strict):
    """What `burnish eval --suite` reads."""

    name: str = ""
    """Default: the file's name."""
    layer: Layer = "single_step"
    about: str = ""
    seed: int = Field(default=1, ge=0)
    samples: int = Field(default=1, ge=1, le=1024)
    temperature: float = Field(default=0.0, ge=0)
    top_p: float = Field(default=1.0, gt=0, le=1)
    chance: float = Field(default=COINCIDENCE, ge=0, lt=1)
    held_out: bool = False
    """A model of a run that trained on one of these domains is not evaluated."""
    when_trained: Literal["refuse", "leave_out"] = "refuse"
    """Where a model's run trained on some of the tasks: refuse to evaluate it, or do so on the others."""
    prompts: str = Field(default="", pattern=r"^(sha256:[0-9a-f]{64})?$")
    tasks: list[TaskEntry] = Field(min_length=1)
    sandbox: SandboxConfig = SandboxConfig()
    episodes: EpisodesConfig = EpisodesConfig()
    """Of tasks that take several turns."""

    @model_validator(mode="after")
    def _draws_differ(self) -> Self:
        if self.samples > 1 and self.temperature == 0:
            raise ValueError(
                f"samples = {self.samples} at temperature 0 would be {self.samples} times the same reply; "
                "set a temperature above 0, or samples = 1"
            )
        if self.top_p < 1 and self.temperature == 0:
            raise ValueError(f"top_p = {self.top_p} does nothing at temperature 0; leave it out, or set a temperature")
        return self

    @property
    def task_seed(self) -> int:
        """The seed that its tasks are made from."""
        return derive(self.seed, "eval")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenSuite:
    """A suite with its domains open and its tasks drawn."""

    suite: Suite
    sources: tuple[Source, ...]
    draws: tuple[Draw, ...]

    @property
    def prompts_hash(self) -> str:
        """What the tasks come to: prompts, truths and limits, in order."""
        contents = [[draw.task.content_hash, draw.task.limits.max_new_tokens] for draw in self.draws]
        return f"sha256:{sha256_json(contents)}"

    @property
    def content_hash(self) -> str:
        """What results must share to be compared: tasks and how replies are drawn."""
        suite = self.suite
        drawing = [suite.seed, suite.samples, suite.temperature, suite.top_p, suite.episodes.model_dump(mode="json")]
        return sha256_json([self.prompts_hash, drawing])


def shipped() -> list[str]:
    """The names of the suites that ship with the package, sorted."""
    return sorted(path.stem for path in SHIPPED.glob("*.toml"))


def read_suite(name: str) -> Suite:
    """Read a suite that ships by its name, or any other by the path of its file."""
    path = Path(name)
    if path.suffix != ".toml":
        if name not in shipped():
            raise ConfigError(f"no suite {name!r}; there are: {', '.join(shipped())}; or give the path of a .toml file")
        path = SHIPPED / f"{name}.toml"
    suite = validate(Suite, read_toml(path), str(path))
    return suite if suite.name else suite.model_copy(update={"name": path.stem})


def named(words: Sequence[str]) -> Iterator[Suite]:
    """The suites that words name: a suite, a file, or a layer for all shipped suites of it."""
    for word in words:
        if word in LAYERS:
            yield from (suite for suite in map(read_suite, shipped()) if suite.layer == word)
        else:
            yield read_suite(word)


def opened(suite: Suite, num: int | None = None) -> OpenSuite:
    """Open a suite's domains and draw its tasks, for a look without a model; nothing is isolated yet."""
    return drawn(
        suite, [Source(entry=each, domain=open_domain(each.domain, each.options)) for each in suite.tasks], num
    )


def drawn(
    suite: Suite, sources: Sequence[Source], num: int | None = None, trained: frozenset[str] = frozenset()
) -> OpenSuite:
    """Draw a suite's tasks, at most `num` a domain; `trained` are prompts that the model has seen in training."""
    draws = held_out(sources, suite.task_seed, num)
    seen = [draw.task for draw in draws if draw.task.prompt_hash in trained]
    if seen and (suite.when_trained == "refuse" or len(seen) == len(draws)):
        raise ConfigError(
            f"suite {suite.name!r}: the model was trained on {len(seen)} of its {len(draws)} tasks, for example "
            f"{seen[0].id!r}; evaluate it on another suite, or on another seed of this one"
        )
    asked = tuple(draw for draw in draws if draw.task.prompt_hash not in trained)
    made = OpenSuite(suite=suite, sources=tuple(sources), draws=asked)
    is_whole = num is None and len(sources) == len(suite.tasks)
    if suite.prompts and is_whole and made.prompts_hash != suite.prompts:
        raise ConfigError(
            f"suite {suite.name!r} pins its tasks as {suite.prompts}, but they come to {made.prompts_hash}: a domain "
            "or its package has changed; install the version that it was made with, or copy the suite under a new "
            "name with the new hash"
        )
    return made
