"""A job behaves as `python` would, and shares nothing with the next."""

import pytest

from burnish.core.errors import SandboxError

PROGRAMS = {
    "print": ("print(3 + 4)", 0, b"7\n", b""),
    "main": ("print(__name__)", 0, b"__main__\n", b""),
    "arguments": ("import sys; print(sys.argv, flush=True)", 0, b"['']\n", b""),
    "folder": ("import os; print(os.getcwd(), os.listdir())", 0, b"/work []\n", b""),
    "exit code": ("import sys; sys.exit(3)", 3, b"", b""),
    "exit with text": ("import sys; sys.exit('no')", 1, b"", b"no\n"),
    "exit of the shell": ("exit(4)", 4, b"", b""),
    "hard exit": ("import os; print('lost'); os._exit(5)", 5, b"", b""),
    "exit handler": ("import atexit; atexit.register(print, 'bye')", 0, b"bye\n", b""),
    "thread at the end": (
        "import threading, time\nthreading.Thread(target=lambda: (time.sleep(.1), print('t'))).start()",
        0,
        b"t\n",
        b"",
    ),
    "exception": (
        "def f():\n    return 1 / 0\nf()",
        1,
        b"",
        b'Traceback (most recent call last):\n  File "<job>", line 3, in <module>\n    f()\n'
        b'  File "<job>", line 2, in f\n    return 1 / 0\n           ~~^~~\nZeroDivisionError: division by zero\n',
    ),
    "own exception hook": ("import sys; sys.excepthook = lambda *e: print('mine'); 1 / 0", 1, b"mine\n", b""),
    "unicode": ("print('\\u00e9\\u4e2d')", 0, "é中\n".encode(), b""),
    "temporary files": ("import tempfile; tempfile.TemporaryFile().write(b'x'); print(1)", 0, b"1\n", b""),
    "processes": (
        "import multiprocessing as m\nwith m.get_context('fork').Pool(2) as p: print(p.map(abs, [-1, -2]))",
        0,
        b"[1, 2]\n",
        b"",
    ),
    "another python": (
        "import subprocess, sys; print(subprocess.check_output([sys.executable, '-c', 'print(1)']))",
        0,
        b"b'1\\n'\n",
        b"",
    ),
    "site packages": ("import pydantic; print(pydantic.__name__)", 0, b"pydantic\n", b""),
    "stdout by name": ("open('/dev/stdout', 'w').write('x')", 0, b"x", b""),
    "loopback of its own": (
        "import socket; a, b = socket.socketpair(); a.send(b'x'); print(b.recv(1))",
        0,
        b"b'x'\n",
        b"",
    ),
}


@pytest.mark.parametrize(("source", "code", "stdout", "stderr"), PROGRAMS.values(), ids=PROGRAMS)
def test_a_program_runs_as_in_python(run, source, code, stdout, stderr):
    outcome = run(source, memory_mb=256, num_processes=16)
    assert (outcome.exit_code, outcome.stdout, outcome.stderr, outcome.ending) == (code, stdout, stderr, "exited")


def test_a_syntax_error_is_a_traceback_and_exit_code_one(run):
    outcome = run("def")
    assert outcome.exit_code == 1 and outcome.stderr.endswith(b"SyntaxError: invalid syntax\n")


def test_input_files_and_answer_pass_through(run):
    source = """
import os, sys, helper
answer = sys.stdin.buffer.read() + open("data/in.bin", "rb").read() + helper.WORD
os.write(int(os.environ["BURNISH_ANSWER_FD"]), answer)
"""
    files = {"data/in.bin": b"\0\xff", "helper.py": b"WORD = b'w'"}
    assert run(source, files=files, stdin=b"in").answer == b"in\0\xffw"


@pytest.mark.parametrize("name", ["/etc/x", "../x", "a/../../x", "", "a\0b"])
def test_a_file_name_that_leaves_the_folder_is_refused(run, name):
    with pytest.raises(SandboxError, match="relative to its working folder"):
        run("", files={name: b""})


def test_two_jobs_share_no_file_module_variable_or_randomness(run):
    source = """
import builtins, json, os, random, sys
print([name for folder in ("/work", "/tmp", "/dev/shm") for name in os.listdir(folder)])
print(hasattr(builtins, "mark"), hasattr(json, "mark"))
builtins.mark = json.mark = 1
for folder in ("/work", "/tmp", "/dev/shm"):
    open(folder + "/mark", "w").close()
os.write(3, str(random.random()).encode())
"""
    first, second = run(source), run(source)
    assert first.stdout == second.stdout == b"[]\nFalse False\n" and first.answer != second.answer


def test_what_was_preloaded_is_there_at_once(run_job):
    source = "import sys; print('fractions' in sys.modules)"
    assert run_job(source, preload=("fractions",)).stdout == b"True\n"
    assert run_job(source, preload=()).stdout == b"False\n"


def test_a_preload_that_does_not_exist_says_so(run_job):
    with pytest.raises(SandboxError, match="No module named 'no_such_module'"):
        run_job("", preload=("no_such_module",))
