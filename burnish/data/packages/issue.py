"""What the agent is told of a fault, at three levels: what a test prints, what should hold, or that something is wrong.

Decisions: nothing is written by a model. The words come from what a failing test prints; frames in the package's own
files are left out, since the last of them is often the fault itself, and so is whatever line of the faulty code is
quoted. A vague symptom names the package and how many tests fail, and neither test nor function.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final, Literal

Form = Literal["traceback", "behaviour", "vague"]
FORMS: Final[tuple[Form, ...]] = ("traceback", "behaviour", "vague")
MOST_LINES: Final = 24
FRAME: Final = re.compile(r"^(?P<file>[^\s:]+\.py):\d+: ")
ERROR: Final = re.compile(r"^E(   ?|$)")


def forms(said: Mapping[str, str], secret: Collection[str]) -> tuple[Form, ...]:
    """The levels that there are words for: without a report that tells something, only the vague one."""
    return FORMS if any(_of_tests(text, secret) for text in said.values()) else ("vague",)


def issue(
    form: Form, number: str, package: str, said: Mapping[str, str], num: int, secret: Collection[str], command: str
) -> str:
    """Write issue `number`: `said` is what tests print, `num` how many fail, `secret` lines that must not be told."""
    end = f"Fix the code of {package}, not the tests. `{command}` runs them."
    if form == "vague":
        count = "One check that passed before fails" if num == 1 else f"{num} checks that passed before fail"
        return f"Issue {number}: since the last change {package} does not work as it should. {count}. {end}"
    name, text = next((name, text) for name, report in said.items() if (text := _of_tests(report, secret)))
    if form == "traceback":
        return f"Issue {number}: {name} fails.\n\n{_block(text[:MOST_LINES])}\n\n{end}"
    code, errors = _expectation(text)
    return (
        f"Issue {number}: with {package}, this should work:\n\n{_block(code)}\n\nbut I get\n\n{_block(errors)}\n\n{end}"
    )


def _block(lines: Sequence[str]) -> str:
    return "\n".join(["```", *lines, "```"])


def _of_tests(said: str, secret: Collection[str]) -> list[str]:
    """The lines of a report that are of the tests themselves, and its error; none that is secret."""
    kept: list[str] = []
    is_own = True
    for line in said.splitlines():
        frame = FRAME.match(line)
        if frame:
            is_own = frame["file"].startswith("tests/")
        if (is_own or ERROR.match(line)) and not any(each in line for each in secret):
            kept.append(line.rstrip())
    return kept if any(ERROR.match(line) for line in kept) else []


def _expectation(text: Sequence[str]) -> tuple[list[str], list[str]]:
    """The code of the tests that did not hold, and what came instead."""
    errors = [ERROR.sub("", line) for line in text if ERROR.match(line)]
    code = [line.strip() for line in text if not ERROR.match(line) and not FRAME.match(line) and line.strip()]
    return code[-4:], list(filter(None, errors[:8]))
