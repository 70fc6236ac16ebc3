"""What a run of the hidden tests is given, and the words that it says: common to pytest and unittest.

Nothing of the agent's configures a run: no conftest, plugin or settings file of the tree is looked for, the tests
come out of memory, and only the ids that were asked for run. A `Watch` (grade `same_interpreter`) is made after
the runner is set up and before the first test module is imported, which is when the tested code comes in.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Final

LONGEST_MESSAGE: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to run: codes of the test files by name, the ids still wanted, plugins of the installed packages."""

    codes: Mapping[str, CodeType]
    wanted: Sequence[str]
    plugins: Sequence[str]
    folder: str
    is_watched: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Emit:
    """Where words about the run go."""

    start: Callable[[str], None]
    report: Callable[[str, str, str], None]
    note: Callable[[str], None]
