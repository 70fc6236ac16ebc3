"""Rows of SWE-bench and of SWE-smith, from JSONL: an issue, a patch, and which tests fail and pass.

In a SWE-bench row `patch` mends and `test_patch` brings the tests; in a SWE-smith row `patch` plants the fault, so its
reverse mends. Test lists are JSON lists, or JSON in a string. Which kind a row is: one with `base_commit` is
SWE-bench's, one with `image_name` SWE-smith's; one with neither or both is refused. Unknown fields are errors that
name them, but for those that descendants of the formats add (`OTHERS`).

Covered: the fields and both forms of lists. Not covered: ids of tests that the data set itself has cut short (within
`[`); they are found in no report, and the row then cannot be solved.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import Field, JsonValue, field_validator

from burnish.core.config import Strict, validate
from burnish.core.errors import ConfigError

OTHERS: Final = frozenset(
    "hints_text created_at version environment_setup_commit difficulty install_config docker_image meta repo_name "
    "license_name language interface requirements environment".split()
)


class SweRow(Strict):
    """One row of either kind."""

    instance_id: str = Field(min_length=1)
    repo: str = Field(min_length=1)
    problem_statement: str
    patch: str = Field(min_length=1)
    test_patch: str = ""
    base_commit: str | None = None
    image_name: str | None = None
    FAIL_TO_PASS: list[str] = Field(min_length=1)
    PASS_TO_PASS: list[str] = []

    @field_validator("FAIL_TO_PASS", "PASS_TO_PASS", mode="before")
    @classmethod
    def _list(cls, value: JsonValue) -> JsonValue:
        """A JSON list in a string is a list."""
        if not isinstance(value, str):
            return value
        try:
            return json.loads(value)
        except ValueError:
            raise ValueError(f"{value[:60]!r} is neither a list nor JSON of one") from None

    @property
    def kind(self) -> Literal["swe-bench", "swe-smith"]:
        """Whose format it is."""
        return "swe-bench" if self.base_commit is not None else "swe-smith"


def read_rows(path: Path) -> Iterator[SweRow]:
    """Read a JSONL file row by row; `ConfigError` names the line."""
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                yield read_row(line, f"{path}, line {number}")


def read_row(line: str, where: str) -> SweRow:
    """Read one row."""
    try:
        raw: Any = json.loads(line)
    except ValueError as error:
        raise ConfigError(f"{where}: not JSON: {error}") from None
    if not isinstance(raw, dict):
        raise ConfigError(f"{where}: expected an object, got {line[:60]!r}")
    row = validate(SweRow, {key: value for key, value in raw.items() if key not in OTHERS}, where)
    if (row.base_commit is None) == (row.image_name is None):
        raise ConfigError(
            f"{where}: a SWE-bench row has base_commit, a SWE-smith row image_name; this one has both or none"
        )
    return row
