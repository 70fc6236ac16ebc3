"""The program that judges a tree of files by hidden tests, inside the sandbox; see `code_tests` for the outside.

It is the trusted part of the job and never imports the agent's code. It holds the answer descriptor, the token that
each of its lines must carry, and the tests, none of which is ever a file; it cannot be traced or read through
`/proc`. What it does with the tests depends on the grade of trust that was asked for:

`separate`: it runs the tests itself. The tested code lives in a process that was forked before the tests were read
(`code_tests_subject`), and is reached through stand-ins (`code_tests_proxy`).

`same_interpreter`: a forked child runs the tests with the tested code in it. The child has no answer descriptor and no
token; it says over a pipe when a test starts and what came of it, in lines under a running seal. A test counts
as passed only if it was started, reported once, in order, in time, and the child lived on. A child that dies or
hangs loses that test; another child runs the rest. The seal's key lies in the child's memory: code there that
goes to look for it can forge a report. That is what this grade cannot prove.
"""

import hashlib
import json
import os
import select
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import CodeType
from typing import Any, Final, NoReturn

from burnish.rewards.code_tests_clock import Deadline
from burnish.rewards.code_tests_integrity import hide_ourselves
from burnish.rewards.code_tests_loader import compile_tests
from burnish.rewards.code_tests_place import be_traceable, be_untraceable, silence, use_tree
from burnish.rewards.code_tests_proxy import Client, RemoteModules, Subject
from burnish.rewards.code_tests_session import Emit, Plan
from burnish.rewards.code_tests_subject import start_nursery

Runner = Callable[[Plan, Emit], None]
SEAL_BYTES: Final = 16
MOST_UNREAD_BYTES: Final = 1 << 20


class Answers:
    """Lines to the outside, each with the token."""

    def __init__(self, fd: int, token: str) -> None:
        self._fd, self._token = fd, token

    def say(self, **words: object) -> None:
        """Write one line, whole."""
        line = json.dumps({"token": self._token, **words}).encode() + b"\n"
        while line:
            line = line[os.write(self._fd, line) :]

    def let_go(self) -> None:
        """Close the descriptor and forget the token: what a process does before the tested code comes in."""
        os.close(self._fd)
        self._fd, self._token = -1, ""

    def report(self, test_id: str, outcome: str, message: str) -> None:
        """Say what came of one test."""
        self.say(id=test_id, outcome=outcome, message=message)


def main(run_tests: Runner) -> None:
    """Fork the nursery if one is needed, read the work, and do it."""
    answer_fd = int(os.environ.pop("BURNISH_ANSWER_FD"))
    be_untraceable()
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    nursery = start_nursery([answer_fd])
    work = json.load(sys.stdin)
    silence()
    answers = Answers(answer_fd, work["token"])
    try:
        codes = compile_tests(work["tests"])
    except (SyntaxError, ValueError, RecursionError) as error:
        answers.say(fault=f"the tests do not compile: {error}")
        return
    folder = _stage(work)
    if work["trust"] == "separate":
        _run_here(run_tests, work, codes, folder, nursery, answers)
    else:
        nursery.close()
        _run_in_children(run_tests, work, codes, folder, answers)
    for name, text in work["data"].items():
        if _read(os.path.join(folder, name)) != bytes.fromhex(text):
            answers.say(note=f"tampered with the tests' file {name!r}", tampered=True)
    answers.say(end=True)


def _stage(work: Any) -> str:
    """Make the folder that stands for the tests': empty files, since pytest wants some, and the tests' data."""
    folder = tempfile.mkdtemp(prefix="tests-")
    files = dict.fromkeys(work["tests"], b"") | {name: bytes.fromhex(text) for name, text in work["data"].items()}
    for name, content in files.items():
        path = Path(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(0o444)
    return folder


def _read(path: str) -> bytes | None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    with os.fdopen(fd, "rb") as file, suppress(OSError):
        return file.read()
    return None


def _plan(work: Any, codes: Mapping[str, CodeType], folder: str, wanted: list[str], is_watched: bool) -> Plan:
    return Plan(codes=codes, wanted=wanted, plugins=work["plugins"], folder=folder, is_watched=is_watched)


def _run_here(
    run_tests: Runner, work: Any, codes: Mapping[str, CodeType], folder: str, nursery: Any, answers: Answers
) -> None:
    word = ":".join(work["roots"]) + "\0" + ":".join(work["modules"])
    subject = Subject(nursery, word.encode(), work["test_cpu_s"], work["test_wall_s"])
    sys.meta_path.insert(0, RemoteModules(Client(subject), work["modules"]))
    os.chdir(folder)
    emit = Emit(start=lambda test_id: None, report=answers.report, note=lambda text: answers.say(note=text))
    run_tests(_plan(work, codes, folder, work["ids"], is_watched=False), emit)
    subject.stop()


def _run_in_children(
    run_tests: Runner, work: Any, codes: Mapping[str, CodeType], folder: str, answers: Answers
) -> None:
    wanted = list(work["ids"])
    while wanted:
        key = os.urandom(32)
        read_end, write_end = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(read_end)
            silence()
            answers.let_go()
            del work["token"]
            _be_child(run_tests, work, _plan(work, codes, folder, wanted, is_watched=True), write_end, key)
        os.close(write_end)
        done = Listener(pid, read_end, key, work, answers).listen(frozenset(wanted))
        os.close(read_end)
        if not done:  # nothing came of any test: the next child would fare no better
            return
        wanted = [one for one in wanted if one not in done]


def _be_child(run_tests: Runner, work: Any, plan: Plan, fd: int, key: bytes) -> NoReturn:
    try:
        os.setpgid(0, 0)
        be_traceable()
        emit = _sealed_emit(fd, key)
        del key
        use_tree(work["roots"], work["modules"])
        work.clear()
        hide_ourselves()
        run_tests(plan, emit)
        emit.note("")
    except BaseException:  # noqa: BLE001 - the tested code's doing, or ours: the end of this process either way
        os._exit(70)
    os._exit(0)


def _sealed_emit(fd: int, key: bytes) -> Emit:
    """Words to the parent; each line is sealed with all that went before it."""
    seal = hashlib.blake2b(key=key, digest_size=SEAL_BYTES)
    dumps, write = json.dumps, os.write

    def say(*words: str) -> None:
        text = dumps(words).encode()
        seal.update(text)
        write(fd, seal.hexdigest().encode() + text + b"\n")

    return Emit(
        start=lambda test_id: say("start", test_id),
        report=lambda test_id, outcome, message: say("report", test_id, outcome, message),
        note=lambda text: say("note", text),
    )


class Listener:
    """The parent's side of one child: reads its lines, holds it to its time, and reports."""

    def __init__(self, pid: int, fd: int, key: bytes, work: Any, answers: Answers) -> None:
        self._pid, self._fd, self._work, self._answers = pid, fd, work, answers
        self._seal = hashlib.blake2b(key=key, digest_size=SEAL_BYTES)
        self._current = ""
        self._done: set[str] = set()
        self._wanted: frozenset[str] = frozenset()
        self._deadline = self._new_deadline()

    def listen(self, wanted: frozenset[str]) -> set[str]:
        """Read until the child is gone; the ids that are settled."""
        self._wanted = wanted
        pidfd = os.pidfd_open(self._pid)
        why = self._read_lines(pidfd)
        os.close(pidfd)
        with suppress(ProcessLookupError):
            os.killpg(self._pid, signal.SIGKILL)
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        _, status = os.waitpid(self._pid, 0)
        if self._current:
            why = why or _how_it_ended(status)
            self._settle(self._current, "died" if "time" not in why else "timed_out", why)
        elif why or status:
            self._answers.say(note=why or f"the tests' process {_how_it_ended(status)}")
        return self._done

    def _read_lines(self, pidfd: int) -> str:
        """Handle each line; the reason to stop, empty once the child has ended by itself."""
        unread = b""
        while True:
            ready, _, _ = select.select([self._fd, pidfd], [], [], self._deadline.look_again_s)
            if self._fd in ready:
                part = os.read(self._fd, 1 << 16)
                *lines, unread = (unread + part).split(b"\n")
                if len(unread) > MOST_UNREAD_BYTES or not all(map(self._take, lines)):
                    self._answers.say(note="wrote on the tests' channel", tampered=True)
                    return "wrote on the tests' channel"
                if part:
                    continue
            if pidfd in ready:
                return ""
            try:
                self._deadline.check()
            except TimeoutError as error:
                return f"time: {error}"

    def _take(self, line: bytes) -> bool:
        """Handle one line; False if it cannot come from our own code."""
        seal, text = line[: 2 * SEAL_BYTES], line[2 * SEAL_BYTES :]
        self._seal.update(text)
        if seal != self._seal.hexdigest().encode():
            return False
        match json.loads(text):
            case ["start", str(test_id)] if not self._current and test_id in self._wanted - self._done:
                self._current = test_id
                self._deadline = self._new_deadline()
                return True
            case ["report", str(test_id), str(outcome), str(message)] if test_id and test_id == self._current:
                self._settle(test_id, outcome, message)
                return True
            case ["note", str(text)]:
                if text:
                    self._answers.say(note=text, tampered=text.startswith("tampered"))
                return True
            case _:
                return False

    def _settle(self, test_id: str, outcome: str, message: str) -> None:
        self._answers.report(test_id, outcome, message)
        self._done.add(test_id)
        self._current = ""
        self._deadline = self._new_deadline()

    def _new_deadline(self) -> Deadline:
        return Deadline(self._pid, self._work["test_cpu_s"], self._work["test_wall_s"])


def _how_it_ended(status: int) -> str:
    if os.WIFSIGNALED(status):
        return f"was killed by signal {os.WTERMSIG(status)}"
    return f"ended with exit code {os.WEXITSTATUS(status)}"


def run(run_tests: Runner) -> None:
    """`main`, with a fault of ours on stderr."""
    stderr = os.dup(2)
    try:
        main(run_tests)
    except Exception:  # noqa: BLE001 - said outside as an infrastructure error
        os.write(stderr, traceback.format_exc().encode())
        os._exit(1)
    os._exit(0)
