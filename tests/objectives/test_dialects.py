"""Dialects: named configurations, each with its source."""

import dataclasses
from typing import get_args

import pytest

from burnish.core import plugins
from burnish.core.errors import ConfigError
from burnish.objectives import aggregation, dialects
from burnish.stages.rl_loss import load_objective

DIALECTS = [
    (kind, f"{name}@{dialect}")
    for kind in ("objectives", "preferences")
    for name in plugins.names(kind)
    for dialect in getattr(plugins.load(kind, name), "DIALECTS", {})
]


@pytest.mark.parametrize(("kind", "name"), DIALECTS, ids=[name for _, name in DIALECTS])
def test_a_dialect_is_a_configuration_of_its_file_with_a_source(kind, name):
    plain, _, dialect_name = name.partition("@")
    module = plugins.load(kind, plain)
    choice = dialects.choose(kind, name)
    assert isinstance(choice.config, module.Config)
    assert choice.aggregation in get_args(aggregation.Kind)
    assert len(module.DIALECTS[dialect_name].source) > 10


def test_the_plain_name_has_the_paper_s_defaults():
    choice = dialects.choose("objectives", "cispo")
    assert choice.config == choice.module.Config()
    assert choice.aggregation == choice.module.AGGREGATION


def test_a_dialect_may_have_its_own_aggregation():
    assert dialects.choose("objectives", "grpo").aggregation == "seq_mean_token_mean"
    assert dialects.choose("objectives", "grpo@verl").aggregation == "token_mean"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("cispo@openrlhf", "'cispo' has no dialect 'openrlhf'; there are: cispo@scalerl, cispo@trl, cispo@verl"),
        ("sft@trl", "'sft' has no dialect 'trl'; there are: none"),
        ("grop@trl", "no plugin 'grop' in objectives; there are: awr, cispo"),
    ],
)
def test_an_unknown_dialect_lists_the_known_ones(name, message):
    with pytest.raises(ConfigError, match=message):
        dialects.choose("objectives", name)


def test_options_of_a_recipe_come_on_top_of_a_dialect():
    config = load_objective("cispo@scalerl", {"ratio_max": 4.0}).config
    assert dataclasses.replace(dialects.choose("objectives", "cispo@scalerl").config, ratio_max=4.0) == config


def test_scalerl_and_stored_data_take_the_ratio_to_the_sampler():
    for name in ("cispo@scalerl", "grpo@offline", "oapl"):
        assert dialects.choose("objectives", name).config.ratio_to_sampler
