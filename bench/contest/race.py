"""Runs the sides of a contest in turns, each turn a process of its own, and compares medians.

All sides get the same shape of work, the same number of threads and the same environment. Where a peer is not
installed, one line says what is left out and how to get it.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from burnish.models.gguf import default_cache, starter_folder
from burnish.models.load import has_fast_bfloat16

ROOT = Path(__file__).parent.parent.parent
PEERS = {
    "trl": ("BURNISH_TRL_PYTHON", "pip install trl peft and the torch of constraints.txt"),
    "vllm": ("BURNISH_VLLM_PYTHON", "`make .venv-vllm/installed`"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One contestant: a module of `bench.contest`, and the interpreter that runs it."""

    name: str
    module: str
    python: str = sys.executable
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Found:
    """What a side's turns gave."""

    turns: list[dict[str, Any]]

    def wall_s(self, name: str) -> float:
        """The median by the wall's clock."""
        return statistics.median(turn["wall_s"][name] for turn in self.turns)

    def cpu_s(self, name: str) -> float:
        """The median by the processor's clock."""
        return statistics.median(turn["cpu_s"][name] for turn in self.turns)

    def number(self, name: str) -> float:
        """The median of another figure."""
        return statistics.median(turn["numbers"][name] for turn in self.turns)


def peer(name: str, rows: str) -> str | None:
    """The interpreter of a peer; None after one line that says which rows are left out."""
    variable, how = PEERS[name]
    python = os.environ.get(variable)
    if not python:
        print(f"left out: {rows}; set {variable} to an interpreter with {name} ({how})")
    return python


def race(sides: Sequence[Side], shape: Mapping[str, Any], *, num_rounds: int) -> dict[str, Found]:
    """Let the sides take turns, the first one first in even rounds and last in odd ones."""
    found = {side.name: Found([]) for side in sides}
    for number in range(num_rounds):
        for side in sides if number % 2 == 0 else reversed(sides):
            found[side.name].turns.append(_turn(side, shape))
    for name, result in found.items():
        versions = " ".join(f"{package} {version}" for package, version in result.turns[0]["versions"].items())
        print(f"  {name}: {versions}; load average after it {os.getloadavg()[0]:.1f}", flush=True)
    return found


def options_of(description: str, *, num_rounds: int) -> argparse.ArgumentParser:
    """What every contest can be told."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="a small share of the work")
    add_machine(parser)
    parser.add_argument("--rounds", type=int, default=num_rounds, help="turns of each side, of which medians count")
    parser.add_argument(
        "--model", type=Path, help="a Hugging Face folder with SmolLM2's tokenizer; default: the starter"
    )
    return parser


def add_machine(parser: argparse.ArgumentParser) -> None:
    """What both sides compute with."""
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--dtype", choices=["float32", "bfloat16"], default="bfloat16" if has_fast_bfloat16() else "float32",
        help="what all sides compute in; default: bfloat16 where the processor has instructions for it",
    )  # fmt: skip


def add_trl_weights(parser: argparse.ArgumentParser) -> None:
    """Let TRL keep its weights otherwise than Burnish, whose masters are float32 always."""
    parser.add_argument(
        "--trl-weights", choices=["float32", "bfloat16"], default="float32",
        help="what TRL keeps weights and moments in; in bfloat16 it is faster, and small updates are rounded away",
    )  # fmt: skip


def model_folder(model: Path | None) -> str:
    """The folder that all sides load."""
    return str(model or starter_folder(default_cache()))


def announce(title: str, shape: Mapping[str, Any], num_rounds: int) -> None:
    """Print what is measured and where."""
    words = ", ".join(f"{name} {value}" for name, value in shape.items())
    print(f"{title}: {words}; median of {num_rounds}\n  {_machine()}; load average before {os.getloadavg()[0]:.1f}")


def compare(what: str, amount: float, unit: str, ours: Found, theirs: Found, name: str, peer_name: str) -> None:
    """One line: both sides' rates and their ratio, by the processor's clock too where both sides have it."""
    mine, other = amount / ours.wall_s(name), amount / theirs.wall_s(name)
    by_processor = ""
    if name in theirs.turns[0]["cpu_s"]:
        by_processor = f"  (by processor time {theirs.cpu_s(name) / ours.cpu_s(name):.2f})"
    print(
        f"{what:34} Burnish {mine:8.1f}  {peer_name} {other:8.1f} {unit}  ratio {mine / other:5.2f}{by_processor}",
        flush=True,
    )


def _turn(side: Side, shape: Mapping[str, Any]) -> dict[str, Any]:
    environment = os.environ | {
        "OMP_NUM_THREADS": str(shape["threads"]), "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false",
        "TRANSFORMERS_VERBOSITY": "error", **side.environment,
    }  # fmt: skip
    command = [side.python, "-m", f"bench.contest.{side.module}", json.dumps(dict(shape))]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment)
    if done.returncode:
        raise SystemExit(f"{side.name} failed in {' '.join(command)}:\n{done.stderr[-4000:]}")
    return next(json.loads(line) for line in reversed(done.stdout.splitlines()) if line.startswith('{"wall_s"'))


def _machine() -> str:
    model = platform.processor() or platform.machine()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    return f"{model}, {os.cpu_count()} cores, Python {platform.python_version()}"
