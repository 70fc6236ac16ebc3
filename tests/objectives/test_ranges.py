"""Options of objectives and corrections that mean nothing are one clear line at the door."""

import dataclasses
import math

import pytest

from burnish.core import plugins
from burnish.core.errors import ConfigError
from burnish.stages.rl_loss import load_objective, multipliers_of

NUMBERS = [
    (kind, name, field.name)
    for kind in ("objectives", "preferences")
    for name in plugins.names(kind)
    for field in dataclasses.fields(plugins.load(kind, name).Config)
    if type(field.default) is float
]


@pytest.mark.parametrize(("kind", "name", "option"), NUMBERS)
def test_no_option_of_any_objective_may_be_a_nan(kind, name, option):
    with pytest.raises(ValueError, match=f"{option} is .*; got nan"):
        plugins.load(kind, name).Config(**{option: math.nan})


@pytest.mark.parametrize(("kind", "name", "option"), [case for case in NUMBERS if case[2] != "baseline"])
def test_no_option_of_any_objective_but_a_baseline_may_be_negative(kind, name, option):
    with pytest.raises(ConfigError, match=rf"^{name}: {option} is .*; got -0\.1$"):
        load_objective(name, {option: -0.1}, kind=kind)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("grpo", {"clip_low": 1.5}, "clip_low is above 0 and at most 1; got 1.5"),
        ("dapo", {"epsilon": 0}, "epsilon is above 0; got 0"),
        ("grpo", {"dual_clip": 1.0}, "dual_clip is above 1; got 1.0"),
        ("cispo", {"ratio_max": 0.2}, "ratio_max is at least 1; got 0.2"),
        ("cispo", {"ratio_min": 1.2}, "ratio_min is at least 0 and at most 1"),
        ("opd", {"ratio_max": 0.5}, "ratio_max is at least 1"),
        ("grpo", {"divide_by_std": False, "epsilon": 1e-4}, "nothing reads epsilon while divide_by_std is false"),
        (
            "cispo@scalerl",
            {"divide_by_step_std": False, "epsilon": 1e-4},
            "nothing reads epsilon while divide_by_std and divide_by_step_std are false; leave epsilon out",
        ),
    ],
)
def test_what_means_nothing_is_refused(name, options, message):
    with pytest.raises(ConfigError, match=message):
        load_objective(name, options)


def test_an_option_is_read_where_a_dialect_has_turned_on_what_needs_it():
    assert load_objective("cispo@scalerl", {"epsilon": 1e-3}).config.epsilon == 1e-3
    assert load_objective("maxrl", {"epsilon": 0}).config.epsilon == 0


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("tis", {"cap": 0.5}),
        ("tis", {"cap": -1.0}),
        ("icepop", {"low": 6.0}),
        ("icepop", {"low": -0.1}),
        ("icepop", {"high": 0.9}),
        ("geometric_mask", {"low": 1.0}),
        ("sequence_product", {"cap": math.nan}),
        ("geometric_mask_tis", {"low": math.nan}),
    ],
)
def test_bounds_of_a_correction_lie_around_one(name, options):
    with pytest.raises(ConfigError, match=f"correction {name!r}: a ratio of 1 needs no correction"):
        multipliers_of(name, options)
