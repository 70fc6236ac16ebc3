"""A session: everything that is open while a run runs."""

import json
import resource
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from rich.console import Console
from rich.text import Text

from burnish.chat.template import Chat, Tokenizer
from burnish.core.errors import ConfigError
from burnish.core.flight import Recorder
from burnish.core.ledger import Ledger
from burnish.core.metrics import MetricsLog
from burnish.core.recipe import (
    EpisodesConfig,
    Recipe,
    RuntimeConfig,
    SandboxConfig,
    TaskEntry,
    VerifyConfig,
)
from burnish.core.run_folder import RunFolder, whole_folder
from burnish.core.seeds import derive
from burnish.core.types import Trajectory
from burnish.domains import open_domain
from burnish.engine.opening import opened
from burnish.learner.policy import Policy
from burnish.learner.ranked_policy import AnyPolicy
from burnish.models.load import Loaded, load
from burnish.rewards.verdict_cache import Cache, open_cache
from burnish.rollout.approximation import approximated
from burnish.rollout.attempts import NO_LIMIT, Means
from burnish.rollout.helper import helper_of
from burnish.rollout.judge import judge_by
from burnish.rollout.mixture import Source, held_out
from burnish.rollout.verification import Sampling, Verification
from burnish.rollout.verification_questions import may_be_kept
from burnish.rollout.verification_report import as_metrics
from burnish.rollout.verifier_workers import open_verifiers
from burnish.runtime.local import Background
from burnish.runtime.opening import Opened, open_runtime
from burnish.runtime.watchdog import Watchdog
from burnish.sandbox import backends, open_box
from burnish.stages.policy import make_policy as make_policy
from burnish.stages.policy import opened_policy

BASE_CHECKPOINT = "base"
NO_CACHE = VerifyConfig(cache=False)
HERE = RuntimeConfig()
EPISODES = EpisodesConfig()


@dataclass(slots=True, kw_only=True)
class Session:
    """What stages work with. `position` and `checkpoint` move on as stages end."""

    recipe: Recipe
    folder: RunFolder
    ledger: Ledger
    metrics: MetricsLog
    console: Console
    sources: list[Source]
    live_sources: list[Source]
    """Those that stage `rl` trains on: the same, some judged approximately where the recipe says so."""
    loaded: Loaded
    policy: AnyPolicy
    means: Means
    flight: Recorder
    position: int = 0
    checkpoint: str = BASE_CHECKPOINT

    @property
    def stage_name(self) -> str:
        """The current stage as files and metrics name it, for example `2-rl`."""
        return f"{self.position}-{self.recipe.stages[self.position]['use']}"

    @property
    def own_policy(self) -> Policy:
        """The policy of a learner in this process, for stages that no other can train."""
        assert isinstance(self.policy, Policy), "`check` refuses such a stage with several ranks"
        return self.policy

    @property
    def eval_seed(self) -> int:
        """The seed of the held-out tasks: the same at each evaluation of the run."""
        return derive(self.recipe.seed, "eval")

    @property
    def train_seed(self) -> int:
        """The seed of the current stage's training tasks: no two stages share tasks."""
        return derive(self.recipe.seed, "train", self.position)

    def held_out_prompts(self) -> frozenset[str]:
        """The prompts that must never train."""
        return frozenset(draw.task.prompt_hash for draw in held_out(self.sources, self.eval_seed))

    def save_checkpoint(self, name: str, *, with_optimiser: bool) -> None:
        """Write the policy as a checkpoint that is whole or absent."""
        with whole_folder(self.folder.checkpoint(name)) as folder:
            self.policy.save(folder, with_optimiser=with_optimiser)

    def load_checkpoint(self, name: str) -> None:
        """Read the policy from a checkpoint of this run."""
        self.policy.load(self.folder.checkpoint(name))
        self.checkpoint = name

    def note_flight(self, step: int, members: Sequence[Trajectory]) -> None:
        """Keep what a step is about to train on in memory, in case an error ends the run."""
        self.flight.note(self.stage_name, step, self.policy.version, members)

    def heartbeat(self) -> None:
        """Note time and memory in the ledger."""
        self.ledger.heartbeat(peak_rss_mb())


def peak_rss_mb() -> float:
    """The most memory that this process ever had, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def set_threads(threads: int) -> None:
    """Use that many processor threads; 0 means all there are."""
    if threads:
        torch.set_num_threads(threads)


def open_sources(entries: list[TaskEntry], sandbox: SandboxConfig, console: Console) -> list[Source]:
    """Open each entry's domain, less those that cannot be judged on this host where the recipe allows that."""
    sources = [Source(entry=entry, domain=open_domain(entry.domain, entry.options)) for entry in entries]
    executes_code = any(source.domain.executes_code for source in sources)
    lacking = backends.missing(sandbox.isolation, sandbox.options) if executes_code else []
    if not lacking:
        return sources
    if sandbox.when_missing == "refuse":
        raise ConfigError(
            f"this host cannot isolate code that the model writes: {'; '.join(lacking)}. "
            'Put that right, or leave those domains out by --set sandbox.when_missing="skip_domains", '
            'or run their code with no isolation at all by --set sandbox.isolation="none"'
        )
    left_out = [source.entry.domain for source in sources if source.domain.executes_code]
    console.print(
        f"No isolation here ({'; '.join(lacking)}): leaving out {', '.join(left_out)}, which execute code.",
        style="yellow",
    )
    kept = [source for source in sources if not source.domain.executes_code]
    if not kept:
        raise ConfigError("no domain is left: all of them execute code, and this host cannot isolate it")
    return kept


def live_sources(recipe: Recipe, sources: list[Source]) -> list[Source]:
    """Those that reinforcement trains on, cheap verifiers and all."""
    if recipe.verify.full_share < 1 and recipe.runtime.verifier_workers:
        raise ConfigError(
            f"verify.full_share = {recipe.verify.full_share} with runtime.verifier_workers = "
            f"{recipe.runtime.verifier_workers}: workers judge by the full verifier alone; leave one of the two out"
        )
    return approximated(
        sources, seed=derive(recipe.seed, "verify"), full_share=recipe.verify.full_share,
        most_disagreement=recipe.verify.most_disagreement,
    )  # fmt: skip


def open_chat(loaded: Loaded) -> Chat:
    """The chat template of a loaded model."""
    return Chat(cast(Tokenizer, loaded.tokenizer))  # transformers declares `eos_token_id` nowhere


@contextmanager
def open_means(
    loaded: Loaded, recipe_engine: Any, sandbox: SandboxConfig, sources: list[Source], version: Any,
    verify: VerifyConfig = NO_CACHE, *, seed: int = 0, runs: Path = Path(), runtime: RuntimeConfig = HERE,
    episodes: EpisodesConfig = EPISODES,
    where: Opened | None = None, tell: Callable[[str], object] = print,
) -> Iterator[Means]:  # fmt: skip
    """Open engine, sandbox and judge; `tell` hears of what is waited for too long, from another thread."""
    with ExitStack() as stack:
        background = stack.enter_context(Background())
        isolation = sandbox.isolation if any(source.domain.executes_code for source in sources) else "none"
        options = sandbox.options if isolation == sandbox.isolation else {}
        opening = open_box(isolation, num_workers=sandbox.num_workers, options=options)
        box = background.run(opening.__aenter__())
        stack.callback(lambda: background.run(opening.__aexit__(None, None, None)))
        chat = open_chat(loaded)
        where = where or stack.enter_context(open_runtime(runtime))
        engine = stack.enter_context(opened(recipe_engine, loaded.model, chat, version, where, runtime))
        verifiers = open_verifiers(where.runtime, sources, sandbox, runtime.verifier_workers)
        verify_by = stack.enter_context(verifiers) if runtime.verifier_workers else None
        verification = Verification(
            box, num_at_once=runtime.verifier_workers or sandbox.num_workers, most_waiting=verify.most_waiting,
            environment=json.dumps(options), verify=verify_by,
            cache=stack.enter_context(open_verdicts(verify, sources, runs)),
            sampling=Sampling(
                seed=derive(seed, "verify"), recheck_share=verify.flaky_sample, audit_share=verify.audit_sample,
                flaky_limit=verify.flaky_limit,
            ),
        )  # fmt: skip
        stack.callback(lambda: background.run(verification.stop()))
        yield Means(
            engine=engine, chat=chat, judge=judge_by(verification), background=background,
            verify_metrics=lambda: as_metrics(verification.take_report()), verify_status=verification.status,
            watchdog=stack.enter_context(Watchdog(tell)), backend=box, episodes=episodes,
            context=loaded.model.config.to_dict().get("max_position_embeddings") or NO_LIMIT,
            helper=helper_of(episodes),
        )  # fmt: skip


@contextmanager
def open_verdicts(verify: VerifyConfig, sources: list[Source], runs: Path) -> Iterator[Cache | None]:
    """Open the cache of verdicts, if the recipe wants one and a domain has any use for it."""
    if not verify.cache or not any(may_be_kept(source.domain) for source in sources):
        yield None
        return
    place = str(runs / "verdicts.sqlite") if verify.cache is True else str(verify.cache)
    secret_file = Path(verify.secret_file) if verify.secret_file else None
    cache = open_cache(place, secret_file=secret_file, most_entries=verify.most_entries)
    try:
        yield cache
    finally:
        cache.close()


@contextmanager
def open_session(recipe: Recipe, runs: Path, *, resume: bool, console: Console) -> Iterator[Session]:
    """Open everything that a run of this recipe needs."""
    set_threads(recipe.threads)
    sources = open_sources(recipe.tasks, recipe.sandbox, console)
    live = live_sources(recipe, sources)
    with ExitStack() as stack:
        folder = RunFolder.open(runs / recipe.name, recipe, resume=resume)
        stack.callback(folder.close)
        ledger = Ledger(folder.path / "ledger.sqlite")
        stack.callback(ledger.close)
        metrics = stack.enter_context(MetricsLog(folder.path / "metrics.jsonl"))
        stack.enter_context(folder.trial())
        with console.status(Text(f"Loading {recipe.model.name} (the first time takes a minute)")):
            loaded = load(recipe.model.name, dtype=recipe.model.dtype)
            where = stack.enter_context(open_runtime(recipe.runtime))
            policy = stack.enter_context(opened_policy(recipe, loaded, where))
        means = stack.enter_context(
            open_means(
                loaded, recipe.engine, recipe.sandbox, sources, lambda: policy.version, recipe.verify,
                seed=recipe.seed, runs=runs, runtime=recipe.runtime, episodes=recipe.episodes, where=where,
                tell=lambda message: console.print(message, style="yellow", markup=False),
            )
        )  # fmt: skip
        session = Session(
            recipe=recipe, folder=folder, ledger=ledger, metrics=metrics, console=console,
            sources=sources, live_sources=live, loaded=loaded, policy=policy, means=means,
            flight=Recorder(folder.path),
        )  # fmt: skip
        if not folder.checkpoint(BASE_CHECKPOINT).exists():
            session.save_checkpoint(BASE_CHECKPOINT, with_optimiser=False)
        yield session
