"""The program that runs a solution inside the sandbox: inputs come in, values go out, keyed by id.

It reads `{"source", "function", "calls": [[id, arguments], ...]}` from stdin and writes one line of JSON
for each call to the private answer descriptor. It holds no expected value, so there is nothing
here to read, patch or forge: whoever writes a right value under a given id has computed it.

Decisions: each call is caught by itself, so that an exception (`sys.exit` included) fails that call
alone; this is the one place where every exception is caught, because the code under it is not ours.
Tuples leave as JSON lists and keys of dicts as strings; NaN and infinities leave as errors.
Not covered: a call that hangs or kills the process takes the calls after it along.
"""

import json
import os
import sys
from collections.abc import Callable


def answer(function: Callable[..., object], call_id: str, arguments: list[object]) -> str:
    """Call once and give the line that reports it."""
    try:
        return json.dumps({"id": call_id, "value": function(*arguments)}, allow_nan=False)
    except BaseException as error:  # noqa: BLE001 - the code that runs here is not ours
        return json.dumps({"id": call_id, "error": type(error).__name__})


def find(source: str, name: str) -> Callable[..., object]:
    """Run the solution's text and take its function; a solution that fails to load fails each call."""
    namespace: dict[str, object] = {"__name__": "solution"}
    try:
        exec(compile(source, "solution.py", "exec"), namespace)
        function = namespace[name]
        assert callable(function)
        return function
    except BaseException as error:  # noqa: BLE001 - the code that runs here is not ours
        reason = error

        def fail(*arguments: object) -> object:
            raise reason

        return fail


def main() -> None:
    """Answer all calls on the private descriptor."""
    work = json.load(sys.stdin)
    with os.fdopen(int(os.environ["BURNISH_ANSWER_FD"]), "w", encoding="utf-8") as answers:
        function = find(work["source"], work["function"])
        for call_id, arguments in work["calls"]:
            answers.write(answer(function, call_id, arguments) + "\n")
            answers.flush()


if __name__ == "__main__":
    main()
