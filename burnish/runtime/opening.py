"""Open the runtime that a recipe names; what does not fit together is refused before anything starts."""

import importlib.util
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from burnish.core.errors import ConfigError
from burnish.core.recipe import EngineConfig, RuntimeConfig
from burnish.runtime.carriers import MemoryCarrier
from burnish.runtime.local import Local
from burnish.runtime.transport import Carrier
from burnish.runtime.types import Runtime

_ADDRESS = re.compile(r"auto|(ray://)?[^\s:/]+:\d+")


class Opened(NamedTuple):
    """A runtime, and what carries weights between its workers."""

    runtime: Runtime
    carrier: Carrier


def check_runtime(config: RuntimeConfig, engine: EngineConfig) -> None:
    """`ConfigError` for what cannot work, with the way out."""
    if config.kind == "local" and config.address:
        raise ConfigError(
            f"runtime.address {config.address!r} is of a Ray cluster and kind is 'local'; say kind = \"ray\" or leave "
            "the address out"
        )
    if config.address and not _ADDRESS.fullmatch(config.address):
        raise ConfigError(
            f"runtime.address {config.address!r} is none of 'auto', 'HOST:PORT' and 'ray://HOST:PORT'; leave it out to "
            "start a cluster of this host"
        )
    if config.kind == "ray" and not _num_cpus(config):
        raise ConfigError(
            "runtime.kind = 'ray' with engine_replicas = 0, verifier_workers = 0 and learner_ranks = 1 would start a "
            'cluster and use it for nothing; raise one of them, or say kind = "local"'
        )
    if config.engine_replicas and engine.use != "local":
        raise ConfigError(
            f"runtime.engine_replicas = {config.engine_replicas} are copies of engine 'local', and engine.use is "
            f"{engine.use!r}, a server that has replicas of its own; leave engine_replicas out, or engine.use"
        )
    if config.engine_threads > 1 and not config.engine_replicas:
        raise ConfigError(
            f"runtime.engine_threads = {config.engine_threads} are those of a replica, and there is none; say "
            "engine_replicas = 1 or more, or set the run's own number at the top of the recipe: threads"
        )
    if config.learner_threads > 1 and config.learner_ranks == 1:
        raise ConfigError(
            f"runtime.learner_threads = {config.learner_threads} are those of a learner's rank, and there is none; say "
            "learner_ranks = 2 or more, or set the run's own number at the top of the recipe: threads"
        )
    if config.kind == "ray" and importlib.util.find_spec("ray") is None:
        raise ConfigError(
            "runtime.kind = 'ray' needs the package ray; pip install 'burnish[ray]', or say kind = \"local\""
        )


@contextmanager
def open_runtime(config: RuntimeConfig) -> Iterator[Opened]:
    """The runtime, while the block lasts."""
    opened = _on_ray(config) if config.kind == "ray" else Opened(Local(), MemoryCarrier())
    try:
        yield opened
    finally:
        opened.runtime.close()


def _on_ray(config: RuntimeConfig) -> Opened:
    from burnish.runtime.ray import Cluster, ObjectStore  # noqa: PLC0415  ray is an extra, and takes a second to import

    return Opened(Cluster(config.address, num_cpus=None if config.address else _num_cpus(config)), ObjectStore())


def _num_cpus(config: RuntimeConfig) -> int:
    """What all workers together take of the hosts."""
    ranks = config.learner_ranks * config.learner_threads if config.learner_ranks > 1 else 0
    return config.engine_replicas * config.engine_threads + config.verifier_workers + ranks
