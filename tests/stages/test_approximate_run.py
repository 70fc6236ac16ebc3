"""A recipe lets a cheap verifier judge in training, and is refused where there is none."""

from pathlib import Path
from typing import Any

import pytest

from burnish.core import metrics
from burnish.core.errors import ConfigError
from burnish.core.recipe import read_recipe
from burnish.stages import training
from burnish.stages.check import check_recipe
from burnish.stages.runner import run_recipe

RECIPE = Path(__file__).parents[2] / "recipes" / "arithmetic_tiny.toml"
SHORT = ["threads=1", "stages.1.num_examples=600", "stages.3.num_steps=2", "verify.full_share=0.3"]


def test_a_cheap_verifier_is_measured_in_a_run(tmp_path: Path) -> None:
    recipe = read_recipe(RECIPE, [*SHORT, "tasks.0.domain=tests.stages.quick_domain"])
    run_recipe(recipe, tmp_path, resume=False)
    rows = [row.values for row in metrics.read(tmp_path / recipe.name / "metrics.jsonl") if row.stage == "3-rl"]
    compared = [values["approximate/arithmetic/num_compared"] for values in rows]
    assert 0 < compared[0] <= compared[-1]
    assert rows[-1]["approximate/arithmetic/num_differing"] > 0


class Killed(Exception):
    """The process ends here."""


def test_what_was_compared_before_the_process_ended_counts_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = [*SHORT, "stages.3.checkpoint_every=1", "tasks.0.domain=tests.stages.quick_domain"]
    recipe = read_recipe(RECIPE, options)
    run_recipe(recipe, tmp_path / "whole", resume=False)
    settle = training.settle

    def settle_and_die(*args: Any) -> None:
        settle(*args)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(training, "settle", settle_and_die)
        with pytest.raises(Killed):
            run_recipe(recipe, tmp_path / "broken", resume=False)
    run_recipe(recipe, tmp_path / "broken", resume=True)
    whole, broken = (counts_of(tmp_path / name / recipe.name) for name in ("whole", "broken"))
    assert len(whole) == 2
    assert broken == whole


def counts_of(run: Path) -> list[float]:
    name = "approximate/arithmetic/num_compared"
    return [row.values[name] for row in metrics.read(run / "metrics.jsonl") if name in row.values]


def test_a_share_without_a_cheap_verifier_is_refused_at_the_door() -> None:
    with pytest.raises(ConfigError, match="no domain here has a cheap verifier"):
        check_recipe(read_recipe(RECIPE, ["verify.full_share=0.5"]))


def test_a_limit_that_nothing_reads_is_refused() -> None:
    with pytest.raises(ConfigError, match="most_disagreement is read with full_share below 1"):
        read_recipe(RECIPE, ["verify.most_disagreement=0.5"])
