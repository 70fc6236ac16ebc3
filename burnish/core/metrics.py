"""The metrics of a run: `metrics.jsonl`, one flat JSON object a line, only ever appended to.

A line reads `{"stage": "rl", "step": 3, "reward": 0.5}`. A process that dies in the middle of a line
leaves half a line; opening the log cuts it off. A resumed run calls `truncate_after`, so that no step
stands twice. Numbers that JSON cannot write are kept as the strings "nan", "inf" and "-inf".

Covered: SIGKILL at any byte, a full disk, a read-only folder. Not covered: two writers at once; a
power cut may lose the newest lines (they are handed to the system, not forced to the disk).
"""

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from burnish.core.errors import RunFolderError
from burnish.core.run_folder import write_whole


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What one stage measured at one step."""

    stage: str
    step: int
    values: Mapping[str, float]


class MetricsLog:
    """An open `metrics.jsonl`; each line has reached the operating system when `log` returns."""

    def __init__(self, path: Path) -> None:
        self._path = path
        _cut_broken_tail(path)
        self._file = _open_for_append(path)

    def log(self, step: int, stage: str, **values: float) -> None:
        """Append one line."""
        line = _to_line(Row(stage=stage, step=step, values=values))
        try:
            num_written = self._file.write(line)
        except OSError as error:
            raise _cannot_write(self._path, error.strerror) from error
        if num_written != len(line):
            raise _cannot_write(self._path, f"only {num_written} of {len(line)} bytes went in")

    def truncate_after(self, stage: str, step: int) -> None:
        """Drop the lines of `stage` that lie beyond `step`, at once or not at all."""
        rows = read(self._path)
        kept = [row for row in rows if row.stage != stage or row.step <= step]
        if len(kept) == len(rows):
            return
        self._file.close()
        _replace(self._path, b"".join(map(_to_line, kept)))
        self._file = _open_for_append(self._path)

    def close(self) -> None:
        """Close the file; safe to call twice."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read(path: Path) -> list[Row]:
    """Read all complete lines; a half-written last line is left out, any other fault is a `RunFolderError`."""
    try:
        lines = path.read_bytes().split(b"\n")[:-1]
    except OSError as error:
        raise RunFolderError(f"cannot read metrics {str(path)!r}: {error.strerror}; is this a run folder?") from error
    return [_to_row(line, path, number) for number, line in enumerate(lines, start=1)]


def _to_line(row: Row) -> bytes:
    values = {name: _to_json(float(value)) for name, value in row.values.items()}
    return json.dumps({"stage": row.stage, "step": row.step, **values}, separators=(",", ":")).encode() + b"\n"


def _to_json(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)


def _to_row(line: bytes, path: Path, number: int) -> Row:
    try:
        entry = json.loads(line)
        stage, step = str(entry.pop("stage")), int(entry.pop("step"))
        return Row(stage=stage, step=step, values={name: float(value) for name, value in entry.items()})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        shown = line[:80].decode(errors="replace")
        message = (
            f"{path}, line {number}: expected an object with stage, step and numbers, got {shown!r}; delete that line"
        )
        raise RunFolderError(message) from error


def _cut_broken_tail(path: Path) -> None:
    if not path.exists():
        return
    try:
        data = path.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        if len(whole) < len(data):
            os.truncate(path, len(whole))
    except OSError as error:
        raise _cannot_write(path, error.strerror) from error


def _open_for_append(path: Path) -> BinaryIO:
    try:
        return open(path, "ab", buffering=0)
    except OSError as error:
        raise _cannot_write(path, error.strerror) from error


def _replace(path: Path, data: bytes) -> None:
    try:
        write_whole(path, lambda temporary: temporary.write_bytes(data))
    except OSError as error:
        raise _cannot_write(path, error.strerror) from error


def _cannot_write(path: Path, reason: str | None) -> RunFolderError:
    return RunFolderError(
        f"cannot write metrics to {str(path)!r}: {reason}; free the disk or choose a writable run folder"
    )
