"""A run whose samples come from workers ends with the weights of one that samples in its own process."""

import os
import random
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest
from safetensors.torch import load_file

from burnish.core.errors import BurnishError
from burnish.core.recipe import EngineConfig, Recipe, read_recipe
from burnish.stages.check import check_recipe
from burnish.stages.runner import run_recipe
from tests.rollout.test_verifier_workers import descendants
from tests.runtime.ray_cluster import ray_cluster
from tests.stages import streams
from tests.stages.streams import session_of


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


def test_a_run_whose_engine_cannot_be_opened_leaves_its_name_free(tmp_path: Path) -> None:
    nobody = EngineConfig(use="vllm", options={"url": "http://127.0.0.1:1", "most_tries": 1})
    refused = pytest.raises(BurnishError, match=r"127\.0\.0\.1:1")
    for engine, error in ((nobody, refused), (EngineConfig(), nullcontext())):
        with error, session_of(streams.recipe().model_copy(update={"engine": engine}), tmp_path) as session:
            assert session.means.engine.version == 0


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
    same_weights(tmp_path, "here", "there")


class Killer:
    """Kills workers of this process while a run runs: each once, some time after it appears, up to so many a kind."""

    def __init__(self, most: dict[str, int]) -> None:
        self.most, self.killed = most, dict[str, list[int]]()
        self._numbers = random.Random(5)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> "Killer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(self._numbers.uniform(0.2, 1.0)):
            for pid in descendants(os.getpid()):
                kind = kind_of(pid)
                killed = self.killed.setdefault(kind, [])
                if pid not in killed and len(killed) < self.most.get(kind, 0) and self._numbers.random() < 0.3:
                    killed.append(pid)
                    os.kill(pid, signal.SIGKILL)


def kind_of(pid: int) -> str:
    """The name of a worker's crew; nothing for other processes."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except FileNotFoundError:
        return ""
    return words[-2].rpartition("-")[0] if "process_main" in " ".join(words) else ""


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_killed_replicas_and_verifiers_change_nothing_in_a_run(tmp_path: Path) -> None:
    assert run_recipe(recipe("here"), tmp_path, resume=False) == 0
    there = recipe("there", "runtime={engine_replicas=1,verifier_workers=2}")
    with Killer({"engine": 2, "verifier": 10}) as killer:
        assert run_recipe(there, tmp_path, resume=False) == 0
    assert len(killer.killed["engine"]) == 2
    assert len(killer.killed["verifier"]) >= 2
    assert not [pid for pid in descendants(os.getpid()) if kind_of(pid)]
    same_weights(tmp_path, "here", "there")


def same_weights(runs: Path, *names: str) -> None:
    one, other = (load_file(next((runs / name / "final").glob("*.safetensors"))) for name in names)
    assert one.keys() == other.keys()
    assert all(one[name].equal(other[name]) for name in one)
