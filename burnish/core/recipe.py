"""The recipe: one TOML file that says what to run.

Stage options are checked by the stage that owns them (`burnish.stages.NAME.Config`), because a new
stage must need no edit here; `burnish check` does both.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Literal, Self

from pydantic import Field, JsonValue, field_validator, model_validator

from burnish.core import plugins
from burnish.core.config import Strict, override, read_toml, validate
from burnish.core.curriculum import Enters, Silent, Solved
from burnish.core.types import Isolation

MOST_DISAGREEMENT: Final = 0.05


class LoraConfig(Strict):
    """Low-rank adapters on the model's linear layers (https://arxiv.org/abs/2106.09685)."""

    rank: int = Field(default=16, ge=1, le=1024)
    alpha: float = Field(default=32.0, gt=0)
    targets: str = "all-linear"
    """`all-linear` (all but the head), or a regular expression on module names."""
    stabilised: bool = False
    """Scale by alpha / sqrt(rank) instead of alpha / rank, so that a large rank learns as fast (rsLoRA)."""


class ModelConfig(Strict):
    """Which model and in which precision."""

    name: str = "starter"
    """`starter`, `gemma3-270m`, `tiny`, a Hugging Face folder, a hub id, or a .gguf file."""
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """Compute precision; `auto` is bfloat16 where the processor has instructions for it. Masters are float32."""
    lora: LoraConfig | None = None
    """Absent: all weights train."""
    freeze: list[str] = []
    """Regular expressions on parameter names; what one is found in does not train."""


class LearnerConfig(Strict):
    """How an update is computed; none of this changes what it is."""

    max_pack_tokens: int = Field(default=2048, ge=1)
    """Tokens that go through the model at once; a longer sequence goes alone."""
    checkpoint_activations: bool = False
    """Run each layer again in the backward pass instead of keeping what it computed: less memory, a third slower."""


class SandboxConfig(Strict):
    """How code that the model wrote is kept in."""

    isolation: Isolation = "namespaces"
    """A backend by name. `none` runs it with no isolation at all; nothing but this word switches isolation off."""
    options: dict[str, JsonValue] = {}
    """The backend's own; it checks them itself when it is opened."""
    when_missing: Literal["refuse", "skip_domains"] = "refuse"
    """Where the host cannot isolate: refuse to start, or say so and leave out the domains that execute code."""
    num_workers: int = Field(default=2, ge=1)

    @field_validator("isolation")
    @classmethod
    def _isolation_is_known(cls, isolation: Isolation) -> Isolation:
        known = plugins.names("backends")
        if isolation not in known and "." not in isolation:
            raise ValueError(f"no isolation {isolation!r}; there are: {', '.join(known)}")
        return isolation


class VerifyConfig(Strict):
    """How verdicts are kept, and looked at twice."""

    cache: str | bool = True
    """A file, or `redis://...`; true is `verdicts.sqlite` in the folder of all runs, false is none."""
    secret_file: str = ""
    """Signs what is kept; made where it is missing. Default: beside the file. A shared cache needs one."""
    most_entries: int = Field(default=1_000_000, ge=100)
    """What was used longest ago goes first."""
    flaky_sample: float = Field(default=0.02, ge=0, le=1)
    """Share of verdicts, kept ones among them, that are found again: a task with two verdicts is not kept."""
    flaky_limit: float = Field(default=0.1, gt=0, le=1)
    """Above this share of differing second looks, nothing of the domain is kept."""
    audit_sample: float = Field(default=0.02, ge=0, le=1)
    """Share of verdicts that a domain's second implementation looks at, where it has one."""
    most_waiting: int = Field(default=1024, ge=1)
    """Replies that may wait to be judged."""
    full_share: float = Field(default=1.0, gt=0, le=1)
    """Below 1, stage `rl` lets a domain's cheap verifier judge, and the full one this share of the replies as well."""
    most_disagreement: float = Field(default=MOST_DISAGREEMENT, ge=0, lt=1)
    """Above this share of differing pairs a domain's cheap verifier judges no more; read with `full_share` below 1."""

    @model_validator(mode="after")
    def _disagreement_is_read(self) -> Self:
        if self.full_share == 1 and self.most_disagreement != MOST_DISAGREEMENT:
            raise ValueError("most_disagreement is read with full_share below 1; set that, or leave this out")
        return self


class EngineConfig(Strict):
    """What samples."""

    use: str = "local"
    max_rows: int = Field(default=64, ge=1)
    """How many sequences are decoded at once."""
    options: dict[str, JsonValue] = {}
    """The engine's own; it checks them itself when it is opened."""


class RuntimeConfig(Strict):
    """Where work runs."""

    kind: Literal["local", "ray"] = "local"
    """Processes of this host, or actors of a Ray cluster."""
    address: str = ""
    """Of a Ray cluster: `auto`, `HOST:PORT` or `ray://HOST:PORT`; empty starts one of this host."""
    engine_replicas: int = Field(default=0, ge=0, le=1024)
    """Workers that sample, each with a copy of the model; 0: sample in the run's own process."""
    engine_threads: int = Field(default=1, ge=1, le=1024)
    """Processor threads of a replica, and what it takes of a Ray host."""
    verifier_workers: int = Field(default=0, ge=0, le=4096)
    """Workers that find verdicts, each with a sandbox of its own; 0: the run's own process does."""
    learner_ranks: int = Field(default=1, ge=1, le=65536)
    """Workers that hold the learner's weights in shares; 1: the run's own process trains."""
    learner_threads: int = Field(default=1, ge=1, le=1024)
    """Processor threads of a rank, and what it takes of a Ray host."""


Limit = Literal["steps", "tokens", "output", "wall"]
Fallback = Literal["end", "ask", "restore", "hand_over"]


class EpisodesConfig(Strict):
    """What attempts of several turns may spend, and what happens when that is spent."""

    max_open: int = Field(default=16, ge=1, le=4096)
    """Episodes under way at once, each with a world of its own."""
    max_steps: int = Field(default=0, ge=0)
    """Turns; 0: as many as the task says."""
    max_tokens: int = Field(default=0, ge=0)
    """Tokens that the policy writes in all turns; 0: as many as it takes in."""
    max_output: int = Field(default=200_000, ge=1)
    """Characters of all observations."""
    wall_s: float = Field(default=600.0, gt=0)
    at_limit: dict[Limit, Fallback] = {}
    """`end`: judge it as it stands. `ask`: one last turn, and the policy is told so. `restore`: go back to the last
    good state first. `hand_over`: `helper` goes on, for as many turns as the task allows."""
    helper: dict[str, JsonValue] = {}
    """The endpoint that takes over (docs/engine_backends.md)."""

    @model_validator(mode="after")
    def _helper_is_used(self) -> Self:
        if bool(self.helper) != ("hand_over" in self.at_limit.values()):
            raise ValueError('at_limit = "hand_over" and a helper go together; give both, or leave both out')
        return self


class TaskEntry(Strict):
    """One source of tasks."""

    domain: str
    """For example `documents`, `rg:chain_sum` or `jsonl:tasks.jsonl`."""
    group: str = ""
    """The name it is reported under; several sources may share one. Default: the domain."""
    weight: float = Field(default=1.0, gt=0)
    """Share of training prompts, relative to the other entries."""
    num_eval: int = Field(default=200, ge=1)
    """How many held-out tasks an evaluation uses."""
    when_check_fails: Literal["refuse", "train_anyway"] = "refuse"
    """Where these tasks fail the check that comes before training: refuse to start, or say so and train on them."""
    enters: Enters = Enters()
    """Stage `rl`: when these tasks begin to train; from the start where nothing is said."""
    solved: Solved | None = None
    """Stage `rl`: when they count less, because they are done right."""
    silent: Silent | None = None
    """Stage `rl`: when they count less, because their rewards do not differ."""
    options: dict[str, JsonValue] = {}
    """The domain's own; it checks them itself when it is opened."""
    rl: dict[str, JsonValue] = {}
    """What stage `rl` does otherwise for these tasks (docs/mixing_domains.md); the stage checks it."""

    @property
    def report_name(self) -> str:
        """Under which name results are reported."""
        return self.group or self.domain


class Recipe(Strict):
    """A whole run."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=100)
    seed: int = Field(default=1, ge=0)
    threads: int = Field(default=0, ge=0, le=1024)
    """Processor threads for torch; 0 is all there are."""
    model: ModelConfig = ModelConfig()
    sandbox: SandboxConfig = SandboxConfig()
    verify: VerifyConfig = VerifyConfig()
    episodes: EpisodesConfig = EpisodesConfig()
    engine: EngineConfig = EngineConfig()
    learner: LearnerConfig = LearnerConfig()
    runtime: RuntimeConfig = RuntimeConfig()
    tasks: list[TaskEntry] = Field(min_length=1)
    stages: list[dict[str, Any]] = Field(min_length=1)
    """Each has `use = "NAME"` and that stage's own options."""

    @field_validator("stages")
    @classmethod
    def _stages_name_a_plugin(cls, stages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        for index, stage in enumerate(stages):
            if not isinstance(stage.get("use"), str):
                raise ValueError(f'stage {index} says no `use`; for example use = "sft"')
        return stages


def read_recipe(path: Path, assignments: Sequence[str] = ()) -> Recipe:
    """Read a recipe and apply `--set` assignments; `ConfigError` with one line a fault."""
    return validate(Recipe, override(read_toml(path), list(assignments)), str(path))
