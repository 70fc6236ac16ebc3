"""The program that runs `math-verify` inside the sandbox: two texts in, one word out.

Its own time limits use signals and are switched off: the box has limits that hold. A text of which it reads nothing
gives no opinion.
"""

import json
import os
import sys
from typing import Any

from math_verify import parse, verify


def main() -> None:
    """Parse both texts and compare."""
    work = json.load(sys.stdin)
    truth, answer = (_parsed(work[key]) for key in ("truth", "answer"))
    word = "none"
    if truth and answer:
        word = "equal" if verify(truth, answer, timeout_seconds=0) else "different"
    with os.fdopen(int(os.environ["BURNISH_ANSWER_FD"]), "w", encoding="utf-8") as out:
        out.write(word)


def _parsed(text: str) -> list[Any]:
    dressed = text if "$" in text or "\\boxed" in text or "\\(" in text else f"${text}$"
    return list(parse(dressed, parsing_timeout=0))


if __name__ == "__main__":
    main()
