"""A recipe's [runtime] is refused where it cannot work, with the way out."""

from importlib.util import find_spec

import pytest

from burnish.core.errors import ConfigError
from burnish.core.recipe import EngineConfig, RuntimeConfig
from burnish.runtime.local import Local
from burnish.runtime.opening import check_runtime, open_runtime


@pytest.mark.parametrize(
    ("runtime", "engine", "message"),
    [
        ({"address": "auto"}, "local", "kind is 'local'; say kind = \"ray\""),
        ({"kind": "ray", "engine_replicas": 1, "address": "somewhere"}, "local", "none of 'auto', 'HOST:PORT'"),
        ({"kind": "ray"}, "local", "raise one of them, or say kind"),
        ({"engine_replicas": 2}, "vllm", "a server that has replicas of its own"),
        ({"engine_threads": 2}, "local", "are those of a replica, and there is none"),
        ({"learner_threads": 2}, "local", "are those of a learner's rank, and there is none"),
    ],
)
def test_what_does_not_fit_is_refused(runtime: dict[str, object], engine: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_runtime(RuntimeConfig.model_validate(runtime), EngineConfig(use=engine))


@pytest.mark.parametrize(
    "runtime", [{}, {"engine_replicas": 4}, {"engine_replicas": 1, "engine_threads": 2, "learner_ranks": 2}]
)
def test_what_fits_is_taken(runtime: dict[str, object]) -> None:
    config = RuntimeConfig.model_validate(runtime)
    check_runtime(config, EngineConfig())
    with open_runtime(config) as opened:
        assert isinstance(opened.runtime, Local)


@pytest.mark.skipif(find_spec("ray") is None, reason="pip install 'burnish[ray]'")
@pytest.mark.parametrize("address", ["auto", "head.example.org:6379", "ray://10.0.0.1:10001"])
def test_addresses_of_clusters_are_taken(address: str) -> None:
    check_runtime(RuntimeConfig(kind="ray", address=address, engine_replicas=1), EngineConfig())
