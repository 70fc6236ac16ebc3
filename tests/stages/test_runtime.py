"""A run whose samples come from workers ends with the weights of one that samples in its own process."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from safetensors.torch import load_file

from burnish.core.errors import ConfigError
from burnish.core.recipe import Recipe, read_recipe
from burnish.stages.check import check_recipe, open_stages
from burnish.stages.runner import run_recipe
from tests.runtime.ray_cluster import ray_cluster


@contextmanager
def no_cluster() -> Iterator[str]:
    yield ""


def recipe(name: str, *assignments: str) -> Recipe:
    """The tiny recipe, short: some supervised steps so that rewards differ, then two of reinforcement."""
    read = read_recipe(
        Path("recipes/arithmetic_tiny.toml"),
        [f"name={name!r}", 'engine.options={path="torch",exact=true}', *assignments],
    )
    sft, rl, export = read.stages[1], read.stages[3], read.stages[6]
    stages = [sft | {"num_examples": 2000}, rl | {"num_steps": 3}, export]
    return read.model_copy(update={"stages": stages})


def test_a_runtime_that_cannot_work_is_refused_before_anything_starts() -> None:
    with pytest.raises(ConfigError, match="learner_ranks = 2: stages train in one process so far; say 1"):
        open_stages(recipe("refused", "runtime.learner_ranks=2"))


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("kind", "cluster"), [("local", no_cluster), ("ray", lambda: ray_cluster(num_cpus=2))])
def test_a_run_with_an_engine_replica_trains_the_same_weights(kind: str, cluster: object, tmp_path: Path) -> None:
    if kind == "ray":
        pytest.importorskip("ray", reason="pip install 'burnish[ray]'")
    assert run_recipe(recipe("here"), tmp_path, resume=False) == 0
    with cluster() as address:
        there = recipe("there", f"runtime={{kind={kind!r},engine_replicas=1,address={address!r}}}")
        check_recipe(there)
        assert run_recipe(there, tmp_path, resume=False) == 0
    one, other = (load_file(next((tmp_path / name / "final").glob("*.safetensors"))) for name in ("here", "there"))
    assert one.keys() == other.keys()
    assert all(one[name].equal(other[name]) for name in one)
