"""The flight record: what a run that stopped by a fault leaves for whoever looks into it.

A recorder keeps the last steps' rollouts in memory. If an error ends the run, they are written to `flight/` in the run
folder, with the error, its traceback, the stack of every thread and the newest metrics; `burnish postmortem` reads it.

Covered: any error that Python raises, from a broken invariant to one of the libraries. Not covered: what leaves no time
to write, as SIGKILL or the kernel's killing for memory; the ledger and the metrics, which are always whole, tell of
that. Ctrl-C is no fault.
"""

import json
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal

from pydantic import ValidationError

from burnish import __version__
from burnish.core.config import Strict
from burnish.core.errors import BurnishError, RunFolderError
from burnish.core.run_folder import write_whole
from burnish.core.types import Trajectory

FORMAT: Final = 1
FOLDER: Final = "flight"
NUM_STEPS: Final = 3
NUM_METRICS: Final = 50


class FlightStep(Strict):
    """What one step worked with; each rollout is a trajectory in its own JSON, which can say NaN."""

    stage: str
    step: int
    version: int
    rollouts: list[str]


class FlightRecord(Strict):
    """What is in a file of `flight/`."""

    format: Literal[1]
    burnish: str
    unix_s: float
    stage: str
    error: str
    message: str
    traceback: str
    stacks: dict[str, str]
    steps: list[FlightStep]
    metrics: list[str]
    """The newest lines of `metrics.jsonl`."""


class Recorder:
    """Keeps the last steps of the run in `run`."""

    def __init__(self, run: Path, num_steps: int = NUM_STEPS) -> None:
        self._run = run
        self._steps: deque[tuple[str, int, int, list[Trajectory]]] = deque(maxlen=num_steps)

    def note(self, stage: str, step: int, version: int, members: Sequence[Trajectory]) -> None:
        """Keep what a step is about to train on, as long as it is among the last."""
        self._steps.append((stage, step, version, list(members)))

    @contextmanager
    def keeping(self, stage: str) -> Iterator[None]:
        """If an error leaves the block, write the record and name its file in the error."""
        try:
            yield
        except Exception as error:
            try:
                path = self._write(stage, error)
            except OSError as fault:
                error.add_note(f"no flight record could be written to {str(self._run)!r}: {fault}")
                raise error from None
            told = f"the last steps are in {str(path)!r}; look into them by: burnish postmortem {self._run}"
            if isinstance(error, BurnishError):
                raise type(error)(f"{error} ({told})") from error
            error.add_note(told)
            raise

    def _write(self, stage: str, error: Exception) -> Path:
        record = FlightRecord(
            format=FORMAT,
            burnish=__version__,
            unix_s=time.time(),
            stage=stage,
            error=type(error).__name__,
            message=str(error),
            traceback="".join(traceback.format_exception(error)),
            stacks=_stacks(),
            steps=[_flight_step(*noted) for noted in self._steps],
            metrics=_newest_lines(self._run / "metrics.jsonl"),
        )
        folder = self._run / FOLDER
        folder.mkdir(exist_ok=True)
        path = folder / f"{stage}-{self._steps[-1][1] if self._steps else 'start'}.json"
        text = json.dumps(record.model_dump(), indent=1)
        write_whole(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))
        return path


def newest(run: Path) -> tuple[Path, FlightRecord] | None:
    """The newest flight record of a run, if a fault ever ended it."""
    files = sorted((run / FOLDER).glob("*.json"), key=lambda path: path.stat().st_mtime_ns)
    if not files:
        return None
    try:
        return files[-1], FlightRecord.model_validate_json(files[-1].read_bytes())
    except ValidationError as error:
        raise RunFolderError(
            f"{str(files[-1])!r} is no flight record of format {FORMAT}: {error.errors()[0]['msg']}; remove the file"
        ) from None


def _flight_step(stage: str, step: int, version: int, members: list[Trajectory]) -> FlightStep:
    return FlightStep(stage=stage, step=step, version=version, rollouts=[member.to_json() for member in members])


def _stacks() -> dict[str, str]:
    """What every thread is doing, by its name."""
    frames = sys._current_frames()  # pyright: ignore[reportPrivateUsage]  the documented way to other threads' stacks
    return {
        f"{thread.name} ({thread.ident})": "".join(traceback.format_stack(frames[thread.ident]))
        for thread in threading.enumerate()
        if thread.ident in frames
    }


def _newest_lines(path: Path) -> list[str]:
    if not path.exists():
        return []
    return path.read_text(encoding="utf-8", errors="replace").splitlines()[-NUM_METRICS:]
