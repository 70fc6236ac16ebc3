"""What each backend that is available here must do; a new file in the folder is held to it with no edit."""

import os
import socket
import tempfile

import pytest

from burnish.core.errors import ConfigError, SandboxError
from burnish.sandbox import backends
from burnish.sandbox.place import ISOLATED, Command, PlaceSpec
from tests.sandbox.backends.conftest import limits

ANSWER = "import os; os.write(int(os.environ['BURNISH_ANSWER_FD']), {})"


def sh(script: str, **rest) -> Command:
    return Command(argv=("/bin/sh", "-c", script), **rest)


def test_a_job_gets_its_files_and_input_and_answers_apart_from_stdout(run):
    source = ANSWER.format("open('a/b.txt', 'rb').read()") + "; print(input())"
    outcome = run(source, files={"a/b.txt": b"of the file"}, stdin=b"of the input")
    assert (outcome.ending, outcome.exit_code) == ("exited", 0), outcome
    assert (outcome.stdout, outcome.answer) == (b"of the input\n", b"of the file")


ENDINGS = {
    "exit code": ("import sys; sys.exit(3)", {}, "exited", 3),
    "traceback": ("1 / 0", {}, "exited", 1),
    "deadline": ("import time; time.sleep(600)", {"wall_s": 1.0}, "timed_out", None),
    "output": ("while True: print('x' * 1000)", {"output_bytes": 10_000}, "over_output", None),
    "signal": ("import os; os.kill(os.getpid(), 9)", {}, "killed", None),
}


@pytest.mark.parametrize(("source", "changed", "ending", "code"), ENDINGS.values(), ids=ENDINGS)
def test_a_job_ends_as_it_should(run, source, changed, ending, code):
    outcome = run(source, **changed)
    assert (outcome.ending, outcome.exit_code) == (ending, code), outcome
    assert len(outcome.stdout + outcome.stderr + outcome.answer) <= changed.get("output_bytes", 1 << 20)


MEMORY = {
    "at once": "x = bytearray(1 << 30)",
    "in many processes": "import os, time\nfor _ in range(2): os.fork()\n"
    "x = bytearray(os.urandom(1 << 10)) * (60 << 10)\ntime.sleep(20)",
}


@pytest.mark.parametrize("source", MEMORY.values(), ids=MEMORY)
def test_memory_is_limited_for_the_whole_tree(isolated, run, source):
    assert run(source).ending == "over_memory"


FILL = """
n = 0
try:
    for n in range(9):
        with open(f"{('/tmp', '/work', '/dev/shm')[n % 3]}/{n}", "wb", 0) as file:
            file.write(bytes(1 << 20)) == 1 << 20 or 1 / 0
except (OSError, ZeroDivisionError):
    pass
"""


def test_a_job_has_no_more_disk_than_it_may_have(isolated, run):
    assert int(run(FILL + ANSWER.format("str(n).encode()")).answer) <= 2


HELD = {
    "the network": "socket.create_connection(('127.0.0.1', int(open('port').read())), timeout=1)",
    "the hypervisor": "socket.socket(40, socket.SOCK_STREAM)",
    "packets": "socket.socket(socket.AF_PACKET, socket.SOCK_RAW)",
    "a file of the host": "open(open('canary').read()).read()",
    "root's home": "os.listdir('/root')",
    "the password hashes": "open('/etc/shadow').read()",
    "a kernel setting": "os.open('/proc/sys/kernel/core_pattern', os.O_WRONLY)",
    "sysrq": "os.open('/proc/sysrq-trigger', os.O_WRONLY)",
    "kernel memory": "open('/proc/kcore', 'rb').read(1)",
    "the memory of pid 1": "open('/proc/1/mem', 'rb').read(1)",
    "the descriptors of pid 1": "os.listdir('/proc/1/fd')",
    "tracing": "libc.ptrace(16, os.getppid(), 0, 0) == -1 and 1 / 0",
    "new namespaces": "libc.unshare(0x10000000) == -1 and 1 / 0",
    "mounts": "libc.mount(b'none', b'/tmp', b'tmpfs', 0, None) == -1 and 1 / 0",
    "another user": "os.setuid(0)",
    "the root folder": "open('/evil', 'w')",
    "the devices": "open('/dev/evil', 'w')",
    "the library": "open(os.__file__, 'a')",
    "this project": "import burnish",
}


@pytest.mark.parametrize("reach", HELD.values(), ids=HELD)
def test_what_a_job_must_not_reach_is_out_of_reach(isolated, run, reach):
    with tempfile.NamedTemporaryFile("w") as canary, socket.create_server(("127.0.0.1", 0)) as server:
        files = {"port": str(server.getsockname()[1]).encode(), "canary": os.path.realpath(canary.name).encode()}
        source = f"import ctypes, os, socket\nlibc = ctypes.CDLL(None)\ntry:\n  {reach}\n"
        outcome = run(source + "except (OSError, ArithmeticError, ImportError): print('held')", files=files)
    assert outcome.stdout == b"held\n", outcome


DAEMON = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(600)
    os._exit(0)
"""


def test_a_job_that_leaves_a_daemon_ends_all_the_same(isolated, run):
    assert run(DAEMON).ending == "exited"


def test_a_place_keeps_what_was_written_through_many_commands(place, wait):
    wait(place.write("a/b.txt", b"1"))
    first = wait(place.run(sh("cat; cat a/b.txt; echo 2 > a/b.txt; exit 7", stdin=b"0")))
    assert (first.ending, first.exit_code, first.stdout) == ("exited", 7, b"01"), first
    assert wait(place.read("a/b.txt", 10)) == b"2\n"
    assert wait(place.run(sh("echo $X; echo oh >&2", env={"X": "y"}))).stdout == b"y\n"


def test_a_command_ends_at_its_deadline_and_its_cap_and_the_place_lives_on(place, wait):
    assert wait(place.run(sh("sleep 600", wall_s=0.5))).ending == "timed_out"
    assert wait(place.run(sh("while :; do echo xxxxxxxxxx; done", output_bytes=1000))).ending == "over_output"
    assert wait(place.run(sh("echo alive"))).stdout == b"alive\n"


def test_a_command_whose_child_holds_stdout_returns_when_it_ends(place, wait):
    assert wait(place.run(sh("sleep 30 & echo done"))).stdout == b"done\n"


def test_a_program_that_is_not_there_is_the_commands_failure(place, wait):
    outcome = wait(place.run(Command(argv=("/no/such/program",))))
    assert (outcome.ending, outcome.exit_code) == ("exited", 127)


REFUSED = {
    "a link": ("ln -s /etc/passwd x", "x"),
    "a link on the way": ("ln -s /etc x", "x/passwd"),
    "a FIFO": ("mkfifo x", "x"),
    "a folder": ("mkdir x", "x"),
    "nothing": ("true", "x"),
    "the way up": ("true", "../etc/passwd"),
    "too much": ("head -c 2000 /dev/zero > x", "x"),
}


@pytest.mark.parametrize(("script", "path"), REFUSED.values(), ids=REFUSED)
def test_only_a_regular_file_within_its_cap_leaves_a_place(place, wait, script, path):
    wait(place.run(sh(script)))
    with pytest.raises(SandboxError, match="place"):
        wait(place.read(path, 1000))


def test_a_restored_place_is_as_it_was_and_nothing_runs_on(backend, place, wait):
    if "snapshots" not in backend.guarantees:
        pytest.skip(f"{backend.isolation} gives no snapshots")
    wait(place.run(sh("echo 1 > kept; mkdir d; ln -s kept d/l")))
    name = wait(place.snapshot())
    wait(place.run(sh("rm -r d; echo 2 > kept; echo 3 > new; (while :; do echo 4 > kept; sleep 0.1; done) &")))
    wait(place.restore(name))
    listed = wait(place.run(sh("sleep 0.3; cat kept; ls; readlink d/l")))
    assert listed.stdout == b"1\nd\nkept\nkept\n", listed


def test_layers_lie_over_each_other_and_stay_as_they_are(backend, wait, tmp_path):
    for name, text in (("low/a", "low"), ("low/b", "low"), ("high/b", "high")):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    layers = (tmp_path / "low", tmp_path / "high")
    started = wait(backend.start(PlaceSpec(layers=layers, needs=backend.guarantees, limits=limits())))
    try:
        assert wait(started.run(sh("cat a b; echo new > a"))).stdout == b"lowhigh"
    finally:
        wait(started.stop())
    assert (tmp_path / "low/a").read_text() == "low"


def test_a_stopped_place_serves_no_more_and_stops_twice(place, wait):
    wait(place.stop())
    wait(place.stop())
    with pytest.raises(SandboxError, match="stopped"):
        wait(place.read("x", 1))


def test_what_a_backend_cannot_give_is_refused_by_name(backend, wait):
    unmet = sorted({"shell", *ISOLATED} - backend.guarantees)
    if not unmet:
        pytest.skip(f"{backend.isolation} gives everything")
    with pytest.raises(SandboxError, match=unmet[0]):
        wait(backend.start(PlaceSpec(needs=frozenset({unmet[0]}))))


@pytest.mark.parametrize("name", backends.names())
def test_an_option_that_a_backend_does_not_know_is_an_error(name):
    with pytest.raises(ConfigError, match=f"options of backend '{name}': unknown key 'no_such_option'"):
        backends.load(name).open_backend({"no_such_option": 1}, 1)


def test_an_unknown_backend_names_the_known_ones():
    with pytest.raises(ConfigError, match=r"no plugin 'jail' in backends; there are: .*bubblewrap.*none"):
        backends.missing("jail")
