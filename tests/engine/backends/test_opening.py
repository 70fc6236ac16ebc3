"""The engine section of a recipe: what it may say is checked before anything is loaded."""

import pytest

from burnish.core.errors import ConfigError
from burnish.core.recipe import EngineConfig
from burnish.engine.opening import check_engine, opened
from tests.fakes import tiny_chat, tiny_loaded


def test_an_engine_is_open_while_the_block_lasts():
    with opened(EngineConfig(), tiny_loaded().model, tiny_chat(), lambda: 5) as engine:
        assert engine.version == 5


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (EngineConfig(use="vlm"), "no plugin 'vlm' in engine; there are: http, local, sglang, vllm"),
        (EngineConfig(use="local", options={"url": "x"}), "unknown key 'url'"),
        (EngineConfig(use="vllm", options={"url": "ftp://x"}), "url"),
        (EngineConfig(use="vllm", options={}), "say either url"),
        (EngineConfig(use="sglang", options={"url": "http://x:1", "timeout_s": 0}), "'timeout_s'"),
    ],
)
def test_a_wrong_engine_section_is_refused(config, message):
    with pytest.raises(ConfigError, match=message):
        check_engine(config, trains=False)


def test_an_endpoint_of_fixed_weights_is_refused_where_a_stage_trains():
    config = EngineConfig(use="http", options={"url": "http://127.0.0.1:1"})
    check_engine(config, trains=False)
    with pytest.raises(ConfigError, match="a stage of the recipe trains"):
        check_engine(config, trains=True)
