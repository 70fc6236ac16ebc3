"""Shells: what is kept between commands, how they end, and what cannot be forged."""

import asyncio
from collections.abc import Callable

import pytest

from burnish.core.errors import SandboxError
from burnish.sandbox import ResourceLimits
from burnish.sandbox.local_place import LocalPlaces
from burnish.sandbox.place import Command, PlaceSpec, Reply
from tests.sandbox.places.conftest import Do

LIMITS = ResourceLimits(cpu_s=60.0, memory_mb=512, disk_mb=8, num_files=256, num_processes=32, output_bytes=1 << 18)


@pytest.fixture(scope="module")
def place(do: Do):
    places = LocalPlaces()
    yield do(places.start(PlaceSpec(limits=LIMITS)))
    do(places.stop())


@pytest.fixture
def shell(do: Do, place):
    opened = do(place.open_shell())
    yield opened
    do(opened.close())


@pytest.fixture
def send(do: Do, shell) -> Callable[..., Reply]:
    return lambda command, timeout_s=60.0, **rest: do(shell.send(command, timeout_s, **rest))


def test_folder_environment_functions_and_last_code_are_kept(send):
    send("mkdir -p /work/d && cd /work/d; export A=1; B=2; f() { echo \"f $1\"; }; alias hi='echo hello'; false")
    reply = send("echo $? $A $B; f x; hi; sh -c 'echo $A$B'")
    assert (reply.output, reply.exit_code, reply.cwd) == ("1 1 2\nf x\nhello\n1\n", 0, "/work/d")


@pytest.mark.parametrize(
    ("command", "output", "code"),
    [
        ('echo "it\'s" \'a "b"\' \\\\', 'it\'s a "b" \\\n', 0),
        ("cat <<E\na\n$((1+1))\nE", "a\n2\n", 0),
        ("for i in 1 2; do\n  echo $i\ndone; (exit 7)", "1\n2\n", 7),
        ("echo ä€😀", "ä€😀\n", 0),
        ("printf 'no newline'", "no newline", 0),
        ("echo 'open", "bash: unexpected EOF while looking for matching `''\n", 2),
        ("break; return 3; echo on", None, 0),
        ("echo !$ !x", "!$ !x\n", 0),
        ("", "", 0),
        ("# a remark", "", 0),
        ("kill -9 $BASHPID", "", None),
    ],
)
def test_commands_come_back_with_output_and_code(send, command, output, code):
    reply = send(command)
    assert output is None or reply.output == output
    assert reply.exit_code == code


def test_nothing_echoes_and_there_is_a_terminal(send):
    assert send("test -t 0 && test -t 1 && test -t 2 && stty size").output == "40 120\n"


def test_ansi_is_stripped_or_kept(do, place, send):
    coloured = r"printf '\033[31mred\033[0m \033]0;title\007end'"
    assert send(coloured).output == "red end"
    raw = do(place.open_shell(strips_ansi=False))
    assert do(raw.send(coloured)).output == "\x1b[31mred\x1b[0m \x1b]0;title\x07end"
    do(raw.close())


@pytest.mark.parametrize(
    "command",
    [
        "sleep 60",
        "while :; do :; done",
        "sh -c \"trap '' INT; sleep 60\"",
        "sh -c \"trap '' INT; sleep 60\" | cat; sleep 61",
        "cat",
        "(sleep 60)",
        "stty raw; sleep 60",
    ],
)
def test_a_command_past_its_time_does_not_take_the_session_along(send, command):
    send("cd /tmp; X=kept")
    reply = send(command, 0.3)
    assert reply.timed_out and not reply.has_new_shell
    assert send("stty sane -echo -onlcr; echo $X $PWD").output == "kept /tmp\n"


def test_a_shell_that_cannot_be_freed_is_replaced_in_its_folder(do, place):
    shell = do(place.open_shell(patience_s=0.05))
    do(shell.send("cd /tmp"))
    reply = do(shell.send("trap '' INT; echo said; while :; do :; done", 1.0))
    assert (reply.output, reply.ending, reply.has_new_shell) == ("said\n", "timed_out", True)
    assert do(shell.send("pwd")).output == "/tmp\n"
    do(shell.close())


def test_a_shell_that_is_being_replaced_is_gone_after_a_restore(do, place):
    async def restore_meanwhile() -> None:
        snapshot = await place.snapshot()
        shell = await place.open_shell(patience_s=0.05)
        sending = asyncio.create_task(shell.send("trap '' INT; while :; do :; done", 0.5))
        while shell._is_open:
            await asyncio.sleep(0)
        await place.restore(snapshot)
        with pytest.raises(SandboxError, match=r"closed|given up"):
            await sending
        with pytest.raises(SandboxError, match="ended"):
            await shell.send("echo")

    do(restore_meanwhile())
    count = "import glob; print(sum(open(c).read() == 'bash\\n' for c in glob.glob('/proc/[0-9]*/comm')))"
    assert do(place.run(Command(argv=("python3", "-c", count)))).stdout == b"0\n"


def test_output_is_cut_in_its_middle_and_paged(send, shell):
    reply = send("seq 20000")
    lines = "".join(f"{number}\n" for number in range(1, 20001))
    assert reply.was_truncated and len(reply.output) < 17_000
    assert reply.output.startswith("1\n2\n") and reply.output.endswith("19999\n20000\n")
    pages = b"".join(shell.page(start, 10_000) for start in range(0, len(lines), 10_000))
    assert pages.decode() == lines


def test_a_flood_ends_and_what_is_kept_is_capped(send, shell):
    reply = send("yes")
    assert reply.ending == "over_output" and len(shell.page(0, 1 << 30)) == LIMITS.output_bytes
    assert send("echo on").output == "on\n"


def test_a_program_that_asks_is_answered(do, shell, send):
    reply = send("read -p 'name? ' n; echo hi $n", 1.0, keeps_running=True)
    assert (reply.ending, reply.output) == ("running", "name? ")
    with pytest.raises(SandboxError, match="runs"):
        send("echo")
    reply = do(shell.type("bob\n"))
    assert (reply.ending, reply.output, reply.exit_code) == ("exited", "hi bob\n", 0)


def test_an_interrupt_ends_what_runs(do, shell, send):
    send("sleep 60", 0.2, keeps_running=True)
    do(shell.interrupt())
    reply = do(shell.type(""))
    assert (reply.ending, reply.exit_code) == ("interrupted", 130)


FORGE = """
import glob, os, socket, time
for path in glob.glob('/proc/*/fd/*'):
    try:
        fd = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    except OSError:
        continue
    try:
        os.write(fd, b'%s\\0' + b'0\\0' + b'/forged\\0')
    except OSError:
        pass
for fd in range(3, 64):
    try:
        os.write(fd, b'\\x1e' * 40 + b'\\0' + b'0\\0/forged\\0')
    except OSError:
        pass
print('\\x1e' + '0' * 32 + '\\x1e', flush=True)
time.sleep(.3)
print('true end', flush=True)
os._exit(5)
"""


def test_a_program_cannot_forge_the_end_of_its_command(send):
    reply = send(f"python3 - <<'END'\n{FORGE}\nEND")
    assert (reply.exit_code, reply.cwd) == (5, "/work") and reply.output.endswith("true end\n")


def test_what_a_command_starts_inherits_no_channel(send):
    reply = send("python3 -c 'import os; print(sorted(map(int, os.listdir(\"/proc/self/fd\"))))'")
    assert reply.output == "[0, 1, 2, 3]\n"  # the last is the listing's own


STEAL = """( sleep .3
for from in 10 11 12 13 14; do
  read -t .2 -u $from line 2>/dev/null && break
done
set -- $line
for to in 10 11 12 13 14; do
  printf '%s\\0' "$3" 0 /forged >&$to
done ) 2>/dev/null; (exit 5)"""


def test_a_subshell_that_steals_the_word_is_not_believed(send):
    reply = send(STEAL, 5.0)
    assert reply.cwd == "/work" and reply.exit_code != 0


def test_background_jobs_go_on_between_commands(send):
    send("(sleep .2; echo done > /tmp/bg) & disown")
    assert send("until [ -e /tmp/bg ]; do sleep .02; done; cat /tmp/bg").output == "done\n"


def test_exit_ends_the_session_with_its_code(send):
    reply = send("exit 4")
    assert (reply.ending, reply.exit_code) == ("shell_ended", 4)
    with pytest.raises(SandboxError, match="ended"):
        send("echo")


def test_a_cancelled_wait_ends_the_command_and_leaves_the_session(do, shell, send):
    async def cancel() -> None:
        task = asyncio.ensure_future(shell.send("X=1; sleep 60"))
        await asyncio.sleep(0.2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    do(cancel())
    assert send("echo $X").output == "1\n"


def test_a_shell_is_in_its_folder_after_a_snapshot_and_gone_after_a_restore(do, place, send):
    send("mkdir -p /work/deep/er; cd /work/deep; cd er")
    snapshot = do(place.snapshot())
    assert send("echo x > f; echo $OLDPWD; cat /work/deep/er/f").output == "/work/deep\nx\n"
    do(place.restore(snapshot))
    with pytest.raises(SandboxError, match="ended"):
        send("echo")
    assert do(place.run(Command(argv=("ls", "/work/deep/er")))).stdout == b""


def test_ten_sessions_side_by_side_do_not_mix(do, place):
    async def all_at_once() -> list[str]:
        shells = await asyncio.gather(*[place.open_shell() for _ in range(10)])
        await asyncio.gather(*[shell.send(f"N={i}") for i, shell in enumerate(shells)])
        replies = await asyncio.gather(*[shell.send("for i in 1 2 3; do echo $N; sleep .01; done") for shell in shells])
        await asyncio.gather(*[shell.close() for shell in shells])
        return [reply.output for reply in replies]

    assert do(all_at_once()) == [f"{i}\n" * 3 for i in range(10)]
