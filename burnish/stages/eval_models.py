"""What `burnish eval` can evaluate: model folders and names, checkpoints of a run, models behind a chat endpoint.

| MODEL | what is loaded |
|---|---|
| `starter`, a folder, a hub id, a `.gguf` file | that model |
| `RUN/checkpoints/NAME` | the run's model with that checkpoint's weights or adapters, as they trained |
| `RUN` | its newest checkpoint |
| `http://HOST:PORT#NAME`, `https://...#NAME` | nothing: model NAME is asked by `POST /v1/chat/completions` |

Decisions: weights that can be seen have a fingerprint, by which results are kept; a model behind an endpoint has none,
since another may answer under its name tomorrow.
Not covered: adapters in peft's format (merge them into a folder first); tasks of several turns at an endpoint.
"""

import hashlib
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, Protocol

from rich.console import Console
from safetensors.torch import load_file

from burnish.core.errors import ConfigError
from burnish.core.recipe import EngineConfig, SandboxConfig
from burnish.core.run_folder import kept_recipe
from burnish.core.seeds import derive
from burnish.core.types import StopReason, Verdict
from burnish.domains import HasEnvironment
from burnish.engine.endpoint import Endpoint, EndpointConfig
from burnish.engine.types import SamplingParams
from burnish.evals.runs import fingerprint_of_files
from burnish.evals.suites import OpenSuite, Suite
from burnish.models.load import Loaded, load
from burnish.rollout.attempts import NO_LIMIT, Attempt, Means, make_attempts
from burnish.rollout.helper import helper_of
from burnish.rollout.judge import Judge, judge_in
from burnish.rollout.mixture import Draw, Source
from burnish.runtime.local import Background
from burnish.sandbox import Backend, open_box
from burnish.stages.export import located
from burnish.stages.session import make_policy, open_means

CHUNK_ROUNDS = 4
"""So many times what the engine decodes at once go to it together, so that places that come free are taken."""


MASTERS = "masters.safetensors"


class Replied(NamedTuple):
    """One reply to one task, judged."""

    draw: Draw
    sample: int
    reply: str
    stop_reason: StopReason
    num_tokens: int
    verdict: Verdict


class Candidate(Protocol):
    """A model under evaluation."""

    @property
    def name(self) -> str:
        """As it was given."""
        ...

    @property
    def fingerprint(self) -> str:
        """Empty where nobody here can see the weights."""
        ...

    def replies(self, opened: OpenSuite, console: Console) -> Iterator[Replied]:
        """Answer each task of a suite as often as it wants, in any order."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalModel:
    """A model whose weights are here."""

    name: str
    fingerprint: str
    loaded: Loaded

    def replies(self, opened: OpenSuite, console: Console) -> Iterator[Replied]:
        """See `Candidate`; sampled by the local engine, judged meanwhile."""
        suite, engine = opened.suite, EngineConfig()
        size = max(1, CHUNK_ROUNDS * engine.max_rows // suite.samples)
        with open_means(
            self.loaded,
            engine,
            suite.sandbox,
            list(opened.sources),
            lambda: 0,
            episodes=suite.episodes,
            tell=console.print,
        ) as means:
            for start in range(0, len(opened.draws), size):
                yield from replies_of(means, suite, opened.draws[start : start + size])


def replies_of(means: Means, suite: Suite, draws: Sequence[Draw]) -> Iterator[Replied]:
    """Sample as many replies to each of these tasks as a suite wants, by its own draws, and have them judged."""
    params = SamplingParams(temperature=suite.temperature, top_p=suite.top_p, max_new_tokens=NO_LIMIT)
    attempts = [
        Attempt(group_id=draw.task.id, draw=draw, seed=derive(suite.task_seed, draw.task.id),
                num_samples=suite.samples, params=params)
        for draw in draws
    ]  # fmt: skip
    for attempt, trajectory in make_attempts(means, attempts, lambda group_id, member: False):
        assert trajectory.verdict is not None
        yield Replied(
            attempt.draw, trajectory.member, trajectory.reply, trajectory.stop_reason, trajectory.num_sampled,
            trajectory.verdict,
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """A model behind a chat endpoint."""

    name: str
    config: EndpointConfig
    fingerprint: str = ""

    def replies(self, opened: OpenSuite, console: Console) -> Iterator[Replied]:
        """See `Candidate`; some tasks are asked at once, and each is judged as soon as it is answered."""
        _refuse_episodes(opened)
        endpoint = Endpoint(self.config)
        asked = [(draw, sample) for draw in opened.draws for sample in range(opened.suite.samples)]
        with open_judge(opened.suite.sandbox, opened.sources) as (judge, background):

            def attempt(draw: Draw, sample: int) -> Replied:
                return _ask(endpoint, opened, draw, sample, judge, background)

            with ThreadPoolExecutor(self.config.most_at_once) as pool:
                waiting: set[Future[Replied]] = {pool.submit(attempt, *each) for each in asked}
                try:
                    while waiting:
                        done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                        yield from (future.result() for future in done)
                finally:
                    pool.shutdown(cancel_futures=True)


def _refuse_episodes(opened: OpenSuite) -> None:
    several = [source.entry.domain for source in opened.sources if isinstance(source.domain, HasEnvironment)]
    if several:
        raise ConfigError(
            f"suite {opened.suite.name!r}: tasks of {several[0]!r} take several turns, and a model behind an endpoint "
            "is asked for one reply; evaluate it on other suites"
        )


def _ask(
    endpoint: Endpoint, opened: OpenSuite, draw: Draw, sample: int, judge: Judge, background: Background
) -> Replied:
    suite, task = opened.suite, draw.task
    params = SamplingParams(
        temperature=suite.temperature, top_p=suite.top_p, max_new_tokens=task.limits.max_new_tokens
    )  # fmt: skip
    reply = endpoint.reply(task.messages, params, seed=derive(suite.task_seed, task.id, sample))
    verdict = background.run(judge(draw.source.domain, task, reply.text))
    stop_reason: StopReason = "length" if reply.finish_reason == "length" else "eos"
    return Replied(draw, sample, reply.text, stop_reason, reply.reply_tokens or 0, verdict)


@contextmanager
def open_judge(sandbox: SandboxConfig, sources: Sequence[Source]) -> Iterator[tuple[Judge, Background]]:
    """A judge for replies that come from elsewhere, and the thread that it works in."""
    with _opened_box(sandbox, sources) as (box, background):
        yield judge_in(box, num_at_once=sandbox.num_workers), background


@contextmanager
def with_sandbox(means: Means, opened: OpenSuite) -> Iterator[Means]:
    """Means of another's policy that judge, and make worlds, as a suite says."""
    sandbox, episodes = opened.suite.sandbox, opened.suite.episodes
    with _opened_box(sandbox, opened.sources) as (box, background):
        yield replace(
            means, judge=judge_in(box, num_at_once=sandbox.num_workers), background=background, backend=box,
            episodes=episodes, helper=helper_of(episodes),
        )  # fmt: skip


@contextmanager
def _opened_box(sandbox: SandboxConfig, sources: Sequence[Source]) -> Iterator[tuple[Backend, Background]]:
    with ExitStack() as stack:
        background = stack.enter_context(Background())
        isolation = sandbox.isolation if any(source.domain.executes_code for source in sources) else "none"
        options = sandbox.options if isolation == sandbox.isolation else {}
        opening = open_box(isolation, num_workers=sandbox.num_workers, options=options)
        box = background.run(opening.__aenter__())
        stack.callback(lambda: background.run(opening.__aexit__(None, None, None)))
        yield box, background


def open_model(name: str, api_key_env: str = "") -> Candidate:
    """Load a model, or find its endpoint; `ConfigError` if there is none."""
    if name.startswith(("http://", "https://")):
        return _served(name, api_key_env)
    if api_key_env:
        raise ConfigError(
            f"model {name!r} is no endpoint, so that --api-key-env {api_key_env} does nothing; leave it out"
        )
    if run := run_of(Path(name)):
        return _checkpoint(name, Path(name), run)
    loaded = load(name)
    return LocalModel(name=name, fingerprint=_fingerprint(loaded), loaded=loaded)


def _served(name: str, api_key_env: str) -> ServedModel:
    url, _, model = name.partition("#")
    if not model:
        raise ConfigError(f"endpoint {name!r} names no model; write it behind a #: {url}#NAME")
    return ServedModel(name=name, config=EndpointConfig(url=url, model=model, api_key_env=api_key_env))


def run_of(path: Path) -> Path | None:
    """The run that a path is a checkpoint of, or the run itself; None for a plain model."""
    if (path / "recipe.resolved.json").is_file():
        return path
    is_checkpoint = (path / MASTERS).is_file() and (path.parent.parent / "recipe.resolved.json").is_file()
    return path.parent.parent if is_checkpoint else None


def _checkpoint(name: str, path: Path, run: Path) -> LocalModel:
    checkpoint, recipe = located(path)[1], kept_recipe(run)
    loaded = load(recipe.model.name, dtype=recipe.model.dtype)
    base = [_fingerprint(loaded), recipe.model.model_dump_json()]
    policy = make_policy(loaded, recipe.model, recipe.seed)
    policy.weights.adopt(load_file(checkpoint / MASTERS))
    fingerprint = fingerprint_of_files(checkpoint, [MASTERS], more=base)
    return LocalModel(name=name, fingerprint=fingerprint, loaded=loaded)


def _fingerprint(loaded: Loaded) -> str:
    """Of the files that the weights came from; of the weights themselves where there are none."""
    if loaded.master_folder is not None:
        return fingerprint_of_files(loaded.master_folder, more=[str(loaded.dtype)])
    digest = hashlib.sha256()
    for key, tensor in sorted(loaded.model.state_dict().items()):
        digest.update(key.encode() + tensor.float().numpy().tobytes())
    return digest.hexdigest()
