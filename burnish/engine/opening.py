"""Open the engine that a recipe names: its options are checked by its own `Config`, and it is closed at the end."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType

from transformers import PreTrainedModel

from burnish.chat.template import Chat
from burnish.core import plugins
from burnish.core.config import validate
from burnish.core.errors import ConfigError
from burnish.core.recipe import EngineConfig, RuntimeConfig
from burnish.engine.replicas import opened_replicas
from burnish.engine.types import Engine
from burnish.runtime.opening import Opened

HERE = RuntimeConfig()


def check_engine(config: EngineConfig, *, trains: bool) -> ModuleType:
    """Load the engine's module; `ConfigError` if an option is wrong, or if it cannot follow a policy that trains."""
    module = plugins.load("engine", config.use)
    if hasattr(module, "Config"):
        validate(module.Config, config.options, f"options of engine {config.use!r}")
    elif config.options:
        raise ConfigError(
            f"engine {config.use!r} has no options; got: {', '.join(sorted(config.options))}; leave them out"
        )
    if trains and hasattr(module, "FROZEN"):
        raise ConfigError(
            f"engine {config.use!r} samples from weights that nobody here changes, and a stage of the recipe trains; "
            'use = "local", "vllm" or "sglang"'
        )
    return module


@contextmanager
def opened(
    config: EngineConfig, model: PreTrainedModel, chat: Chat, version: Callable[[], int],
    where: Opened | None = None, runtime: RuntimeConfig = HERE,
) -> Iterator[Engine]:  # fmt: skip
    """The engine over a live model, while the block lasts; in workers, if the recipe wants replicas of it."""
    module = check_engine(config, trains=False)
    if where and runtime.engine_replicas:
        with opened_replicas(where, runtime, config, model, chat, version) as replicas:
            yield replicas
        return
    options = {"options": config.options} if hasattr(module, "Config") else {}
    engine = module.open_engine(model, chat, max_rows=config.max_rows, version=version, **options)
    try:
        yield engine
    finally:
        if hasattr(engine, "close"):
            engine.close()
