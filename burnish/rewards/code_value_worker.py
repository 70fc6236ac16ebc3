"""The program that runs a solution inside the sandbox: inputs come in, values go out, keyed by id.

It reads `{"source", "function", "calls": [[id, arguments], ...]}` from stdin and writes one line of JSON
for each call to the private answer descriptor. It holds no expected value, so there is nothing
here to read, patch or forge: whoever writes a right value under a given id has computed it.
Optional keys of the work: `call_s` (each call may spend so much processor time, and ten times that by the clock),
`load_s`, `most_deaths`, `observe` (what is reported: `value`, `arguments` as the call left them, or `both`),
`is_class` (arguments are then `[arguments of the constructor, [[method, arguments], ...]]`, the value one result
a step), `typed` (values as `encode` writes them).

Decisions: each call is caught by itself, so that an exception (`sys.exit` included) fails that call
alone; this is the one place where every exception is caught, because the code under it is not ours.
With `call_s` the calls run in a child; where one dies of a signal (its timer, a crash in C) the parent reports that
call and a new child goes on after it: one fork a job, one more for each death, none for a call. Without `call_s`
all is one process, and a call that hangs or crashes takes those after it along.
NaN and infinities, nesting beyond `DEEPEST` and integers beyond what Python prints leave as errors, except that
typed values have a form for all but the nesting.
Not covered: calls that leave state behind for later ones; repeats in another order show that, outside.
"""

import json
import mmap
import os
import signal
import sys
from collections.abc import Callable
from typing import Any, NotRequired, TextIO, TypedDict

DEEPEST = 100
MOST_ITEMS = 10_000
LOADING = 0


class Work(TypedDict):
    """What comes in; the docstring above says what each is."""

    source: str
    function: str
    calls: list[tuple[str, list[Any]]]
    call_s: NotRequired[float]
    load_s: NotRequired[float]
    most_deaths: NotRequired[int]
    observe: NotRequired[str]
    is_class: NotRequired[bool]
    typed: NotRequired[bool]


def answer(function: Callable[..., Any], call_id: str, arguments: list[Any], work: Work) -> str:
    """Call once and give the line that reports it."""
    try:
        if work.get("typed"):
            arguments = decode(arguments)
        value = observed(function(*arguments), arguments, work.get("observe"))
        if work.get("typed"):
            value = encode(value)
        line = json.dumps({"id": call_id, "value": value}, allow_nan=False)
        if line.count("[") + line.count("{") > DEEPEST:
            check_depth(value)
        return line
    except BaseException as error:  # noqa: BLE001 - the code that runs here is not ours
        return json.dumps({"id": call_id, "error": type(error).__name__})


def observed(value: Any, arguments: list[Any], observe: str | None) -> Any:
    """What of a call is reported."""
    if observe == "arguments":
        return arguments
    return [value, arguments] if observe == "both" else value


def check_depth(value: Any, depth: int = 0) -> None:
    """Refuse what the reader outside would not read."""
    if depth > DEEPEST:
        raise ValueError("nested too deep")
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for item in value:
            check_depth(item, depth + 1)


def encode(value: Any, depth: int = 0) -> Any:
    """Write a value with its type: `{"$": TYPE, ...}` for all but null, booleans, short integers, floats, text, lists.

    A subclass is written as what it holds; a generator or other iterator is used up, to `MOST_ITEMS` items.
    """
    if depth > DEEPEST:
        raise ValueError("nested too deep")
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return int(value) if abs(value) < 10**300 else {"$": "int", "hex": hex(value)}
    if isinstance(value, float):
        return float(value) if abs(value) < float("inf") else {"$": "float", "text": repr(float(value))}
    if isinstance(value, (bytes, bytearray)):
        return {"$": "bytes", "hex": value.hex()}
    if isinstance(value, complex):
        return {"$": "complex", "items": [encode(value.real), encode(value.imag)]}
    return encode_container(value, depth)


def encode_container(value: Any, depth: int) -> Any:
    """The second half of `encode`."""
    if isinstance(value, dict):
        return {"$": "dict", "items": [[encode(k, depth + 1), encode(v, depth + 1)] for k, v in dict.items(value)]}
    for kind in (list, tuple, set, frozenset):
        if isinstance(value, kind):
            items = [encode(item, depth + 1) for item in value]
            return items if kind is list else {"$": kind.__name__, "items": items}
    if hasattr(type(value), "__next__"):
        items: list[Any] = []
        for item in value:
            if len(items) == MOST_ITEMS:
                raise ValueError("an iterator without end")
            items.append(encode(item, depth + 1))
        return {"$": "iterator", "items": items}
    raise TypeError("a value that has no form: " + type(value).__name__)


def decode(value: Any) -> Any:
    """The inverse of `encode`, for arguments."""
    if isinstance(value, list):
        return [decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    kind = value["$"]
    if kind == "dict":
        return {decode(key): decode(item) for key, item in value["items"]}
    if kind in ("int", "float"):
        return int(value["hex"], 16) if kind == "int" else float(value["text"])
    if kind == "bytes":
        return bytes.fromhex(value["hex"])
    items = [decode(item) for item in value["items"]]
    if kind == "complex":
        return complex(*items)
    return {"tuple": tuple, "set": set, "frozenset": frozenset, "iterator": iter}[kind](items)


def find(work: Work) -> Callable[..., Any]:
    """Run the solution's text and take its function or class; a solution that fails to load fails each call."""
    namespace: dict[str, Any] = {"__name__": "solution"}
    try:
        exec(compile(work["source"], "solution.py", "exec"), namespace)
        target = namespace[work["function"]]
        assert callable(target)
    except BaseException as error:  # noqa: BLE001 - the code that runs here is not ours
        reason = error

        def fail(*arguments: object) -> object:
            raise reason

        return fail
    if not work.get("is_class"):
        return target

    def live(first: list[Any], steps: list[tuple[str, list[Any]]]) -> list[Any]:
        thing = target(*first)
        return [getattr(thing, method)(*arguments) for method, arguments in steps]

    return live


def answer_from(
    work: Work, answers: TextIO, first: int, at: mmap.mmap | bytearray, set_timer: Callable[[float | None], None]
) -> None:
    """Load the solution and answer the calls from number `first` on; `at` names the one that runs, plus one."""
    set_timer(work.get("load_s"))
    function = find(work)
    for number in range(first, len(work["calls"])):
        call_id, arguments = work["calls"][number]
        at[:4] = (number + 1).to_bytes(4, "big")
        set_timer(work.get("call_s"))
        line = answer(function, call_id, arguments, work)
        set_timer(None)
        answers.write(line + "\n")
        answers.flush()


def set_no_timer(seconds: float | None) -> None:
    """For calls that share one process."""


def set_timers(seconds: float | None) -> None:
    """Die of a signal after so much processor time, or ten times as long by the clock; None: no more."""
    signal.setitimer(signal.ITIMER_PROF, seconds or 0)
    signal.setitimer(signal.ITIMER_REAL, 10 * (seconds or 0))


def answer_apart(work: Work, answers: TextIO) -> None:
    """Answer all calls from a child; after a death, from a new one that begins behind the call that died."""
    at = mmap.mmap(-1, mmap.PAGESIZE)
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):  # what a solution prints is nobody's answer, and must not fill the output
        os.dup2(nothing, standard)
    first, num_deaths = 0, 0
    while first < len(work["calls"]):
        at[:4] = LOADING.to_bytes(4, "big")
        child = os.fork()
        if child == 0:
            answer_from(work, answers, first, at, set_timers)
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        if os.WIFEXITED(status):
            return  # the outside sees whether every call was answered
        num_deaths += 1
        first = report_death(work, answers, first, int.from_bytes(at[:4], "big"), status, num_deaths)


def report_death(work: Work, answers: TextIO, first: int, at: int, status: int, num_deaths: int) -> int:
    """Answer for the calls that the death cost; give the number of the call to go on with."""
    by_timer = os.WTERMSIG(status) in (signal.SIGPROF, signal.SIGALRM, signal.SIGXCPU)
    word = "timed out" if by_timer else f"died of signal {os.WTERMSIG(status)}"
    dead = max(first, at - 1)
    is_last = at == LOADING or num_deaths > work.get("most_deaths", 0)
    end = len(work["calls"]) if is_last else dead + 1
    for call_id, _ in work["calls"][dead:end]:
        answers.write(json.dumps({"id": call_id, "error": word}) + "\n")
    answers.flush()
    return end


def main() -> None:
    """Answer all calls on the private descriptor."""
    work: Work = json.load(sys.stdin)
    with os.fdopen(int(os.environ["BURNISH_ANSWER_FD"]), "w", encoding="utf-8") as answers:
        if work.get("call_s"):
            answer_apart(work, answers)
        else:
            answer_from(work, answers, 0, bytearray(4), set_no_timer)


if __name__ == "__main__":
    main()
