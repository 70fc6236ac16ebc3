"""A run in a process of its own that is killed by SIGKILL, and what it leaves."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from safetensors.torch import load_file

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-c", "from burnish.cli import main; main()", "run"]


class KilledRun:
    """The run of one recipe, named `broken`, in a folder; it starts and goes on by the same command."""

    def __init__(self, folder: Path, recipe: str) -> None:
        self._recipe = folder / "broken.toml"
        self._recipe.write_text(recipe)
        self._runs = folder
        self.path = folder / "broken"

    def finish(self) -> None:
        process = self._start()
        output, _ = process.communicate(timeout=110)
        assert process.returncode == 0, output

    def kill_when(self, is_time: Callable[[], bool]) -> None:
        """Kill the run as soon as the condition holds."""
        process = self._start()
        while not is_time():
            assert process.poll() is None, f"the run ended before the kill: {process.stdout and process.stdout.read()}"
            time.sleep(0.002)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()

    def ledger_says(self, query: str) -> bool:
        """Whether the ledger answers the query with something true."""
        ledger = self.path / "ledger.sqlite"
        if not ledger.exists():
            return False
        with sqlite3.connect(f"file:{ledger}?mode=ro", uri=True) as db:
            try:
                return bool(db.execute(query).fetchone()[0])
            except sqlite3.Error:  # its tables are still to come
                return False

    def num_logged(self, stage: str) -> int:
        """How many steps of a stage have whole lines in the metrics."""
        file = self.path / "metrics.jsonl"
        lines = file.read_text().split("\n")[:-1] if file.exists() else []
        return sum(json.loads(line)["stage"] == stage for line in lines)

    def logged(self) -> list[dict[str, Any]]:
        """All rows of the metrics, less how long things took and what a resumed run need not ask for again."""
        rows = [json.loads(line) for line in (self.path / "metrics.jsonl").read_text().splitlines()]
        return [
            {name: value for name, value in row.items() if not name.endswith("_s") and not name.startswith("verify/")}
            for row in rows
        ]

    def weights(self, file: str) -> dict[str, Any]:
        return load_file(self.path / file)

    def _start(self) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [*COMMAND, str(self._recipe), "--resume", "--runs", str(self._runs)], text=True, start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=ROOT, env={**os.environ, "HF_HUB_OFFLINE": "1"},
        )  # fmt: skip


def assert_alike(ours: KilledRun, theirs: KilledRun, stage: str, file: str) -> None:
    """The same bits in a file of weights, the same metrics, and nothing half written."""
    mine, other = ours.weights(file), theirs.weights(file)
    assert mine.keys() == other.keys()
    assert [name for name, value in other.items() if not mine[name].equal(value)] == []
    assert ours.logged() == theirs.logged()
    assert len({row["loss"] for row in theirs.logged() if row["stage"] == stage and "loss" in row}) > 2  # it learned
    assert not list(ours.path.rglob("*.part"))
