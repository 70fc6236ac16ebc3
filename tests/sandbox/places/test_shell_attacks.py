"""What a command tries on the one who reads its shell: to hang it, to break it, to speak in bash's name."""

import asyncio
import os
from collections.abc import Callable

import pytest

from burnish.core.errors import SandboxError
from burnish.sandbox import ResourceLimits
from burnish.sandbox.local_place import LocalPlaces
from burnish.sandbox.place import PlaceSpec, Reply
from burnish.sandbox.shell_text import ANSI


@pytest.fixture(scope="module")
def place(do):
    places = LocalPlaces()
    yield do(places.start(PlaceSpec(limits=ResourceLimits(cpu_s=30.0, disk_mb=8, num_files=64, num_processes=32))))
    do(places.stop())


@pytest.fixture
def shell(do, place):
    opened = do(place.open_shell())
    yield opened
    do(opened.close())


@pytest.fixture
def send(do, shell) -> Callable[..., Reply]:
    return lambda command, timeout_s=60.0, **rest: do(shell.send(command, timeout_s, **rest))


@pytest.mark.parametrize("text", ["echo \ud800", "echo \0"])
def test_a_command_that_is_no_text_is_refused_and_the_session_goes_on(send, text):
    with pytest.raises(SandboxError, match=r"bad (text|command) for a shell"):
        send(text)
    assert send("echo on").output == "on\n"


def test_keys_that_are_no_text_are_refused_and_the_command_goes_on(do, shell, send):
    send("read line; echo $line", 0.1, keeps_running=True)
    with pytest.raises(SandboxError, match="bad text for a shell"):
        do(shell.type("\ud800"))
    assert do(shell.type("on\n")).output == "on\n"


@pytest.mark.parametrize("start", [b"\x1bP", b"\x1b]", b"\x1b[", b"\x1b[0;", b"\x1b ", b"\x1b^"])
def test_escape_codes_without_end_cost_one_look_each(start):
    text = start * (1 << 16)  # with a look at all that follows, each: hours
    assert len(ANSI.sub(b"", text)) <= len(text)


def test_escape_codes_are_still_taken_out():
    assert ANSI.sub(b"", b"a\x1bPq#0\x1b\\b\x1b[1;31mc\x1b]0;title\x07d\x1b(Be") == b"abcde"


STEAL = """( sleep .3
for from in 10 11 12 13 14; do
  while read -r -t .2 -u $from line; do case $line in printf*) break 2;; esac; done 2>/dev/null
done
set -- $line
for to in 10 11 12 13 14; do
  printf '%s\\0' "$3" 0 /forged >&$to
done ) 2>/dev/null; (exit 5)"""


@pytest.mark.slow
def test_a_report_counts_only_if_bash_itself_wrote_it(send):
    reply = send(STEAL, 3.0)
    assert (reply.cwd, reply.ending) == ("/work", "timed_out")


@pytest.mark.slow
def test_a_shell_that_closes_every_channel_ends(send):
    reply = send('for i in {3..255}; do eval "exec $i>&-"; done 2>/dev/null', 3.0)
    assert reply.ending in ("shell_ended", "timed_out")


@pytest.mark.slow
def test_a_stopped_shell_that_reads_nothing_is_replaced(send):
    send("(sleep .2; kill -STOP $$) & disown")
    send_late = "sleep .4; : " + "a" * 1_000_000
    reply = send(send_late, 1.0)
    assert (reply.ending, reply.has_new_shell) == ("timed_out", True) and send("echo on").output == "on\n"


@pytest.mark.slow
def test_an_exit_code_that_is_none_is_no_report(send):
    forge = 'printf() { builtin printf "%s\\0" "$2" $(builtin printf "9%.0s" {1..5000}) "$PWD"; }'
    assert send(forge, 1.0).ending == "timed_out"
    assert send("echo on").output == "on\n"


def test_keys_that_a_command_leaves_reach_no_other(do, shell, send):
    do(shell.send("sleep 1", 0.05, keeps_running=True))
    assert do(shell.type("late\nand half a line")).exit_code == 0
    assert send('read -t .1 line; echo "[$line]"').output == "[]\n"


def test_a_late_interrupt_meets_no_other_command(do, shell, send):
    for round_number in range(20):
        if do(shell.send("sleep .05", 0.01, keeps_running=True)).ending == "running":
            do(shell.type("\x03"))
        assert send(f"echo {round_number}").output == f"{round_number}\n"


def test_an_interrupt_of_nothing_is_none(do, shell, send):
    do(shell.interrupt())
    assert send("echo on").output == "on\n"


@pytest.mark.parametrize("setting", ["olcuc", "-opost", "tostop", "raw", "-isig", "intr ^A", "onlcr", "columns 1"])
def test_settings_of_the_terminal_neither_hide_nor_hold_an_end(send, setting):
    send(f"stty {setting}")
    assert send("sleep 60", 0.3).timed_out
    assert (reply := send("echo on; (exit 3)")).output.strip().lower() == "on" and reply.exit_code == 3


def test_output_that_was_stopped_flows_again(send):
    stop = "import termios; termios.tcflow(0, termios.TCOOFF)"
    reply = send(f'python3 -c "{stop}"; echo on', 0.5)
    assert (reply.timed_out, reply.has_new_shell) == (True, False)
    assert send("echo on").output == "on\n"


@pytest.mark.slow
def test_a_storm_of_signals_costs_the_session_nothing_or_the_reply_says_what(send):
    """A signal that meets bash as it opens its reports again loses them; all else it survives."""
    replies = [send("X=kept; (for i in {1..300}; do kill -INT $$; sleep .005; done) & disown", 10)]
    replies += [send("sleep 60", 0.3) for _ in range(3)]
    replies.append(send("wait", 10))
    assert any(reply.has_new_shell for reply in replies) or send("echo $X").output.strip() == "kept"
    assert send("echo on").output.strip() == "on"


def test_a_report_that_a_signal_has_taken_is_asked_for_again(send):
    reply = send("X=kept; trap 'trap - DEBUG; kill -INT $$' DEBUG", 0.3)
    assert (reply.timed_out, reply.has_new_shell) == (True, False)
    assert send("echo $X").output == "kept\n"


@pytest.mark.parametrize("separator", ["0", "1", "7", "\\n", ""])
def test_the_separator_of_words_changes_no_report(send, separator):
    send(f"IFS='{separator}'")
    assert send("cd /tmp; (exit 107)").exit_code == 107


def test_a_folder_whose_name_is_no_text_can_be_told(send):
    reply = send("mkdir -p $'/tmp/\\xff'; cd $'/tmp/\\xff'")
    assert reply.cwd.encode() == "/tmp/\N{REPLACEMENT CHARACTER}".encode()
    assert send("basename $PWD | od -An -tx1 | head -c 3").output == " ff"


def test_a_cancelled_opening_leaves_no_descriptor(do, place):
    async def cancel() -> int:
        before = len(os.listdir("/proc/self/fd"))
        opening = asyncio.ensure_future(place.open_shell())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        await (await place.open_shell()).close()  # its answer comes after that of the first
        return len(os.listdir("/proc/self/fd")) - before

    assert do(cancel()) == 0


@pytest.mark.parametrize("size", [(0, 80), (40, 1 << 16), (-1, 80), (1 << 63, 80)])
def test_a_terminal_of_no_size_is_refused_and_the_place_lives_on(do, place, send, size):
    with pytest.raises(SandboxError, match="bad terminal"):
        do(place.open_shell(rows=size[0], columns=size[1]))
    assert send("echo on").output == "on\n"


@pytest.mark.parametrize("timeout_s", [0.0, float("nan"), float("inf"), 1e300])
def test_a_time_that_is_none_is_refused(send, timeout_s):
    with pytest.raises(SandboxError, match="bad limit wall_s"):
        send("echo", timeout_s)
    assert send("echo on").output == "on\n"


def test_a_bash_that_loses_its_reports_under_keys_is_replaced(do, shell, send):
    closes_all = 'for i in {3..255}; do eval "exec $i>&-"; done 2>/dev/null'
    send(f"cd /tmp; echo said; sleep .5; {closes_all}; sleep 60", 0.1, keeps_running=True)
    reply = do(shell.type("x"))
    assert (reply.ending, reply.has_new_shell) == ("interrupted", True)
    assert send("pwd").output == "/work\n"  # the last folder that bash has reported


def test_a_shell_that_is_closed_while_a_command_runs_says_so_at_once(do, place):
    async def close() -> None:
        shell = await place.open_shell()
        sending = asyncio.ensure_future(shell.send("sleep 60"))
        await asyncio.sleep(0.1)
        await shell.close()
        with pytest.raises(SandboxError, match="closed while a command ran"):
            await asyncio.wait_for(sending, 10.0)

    do(close())


def test_a_new_shell_starts_in_work_when_its_folder_has_gone(do, place):
    shell = do(place.open_shell(patience_s=0.05))
    do(shell.send("mkdir /tmp/gone; cd /tmp/gone"))
    reply = do(shell.send("rmdir /tmp/gone; trap '' INT; while :; do :; done", 0.5))
    assert (reply.has_new_shell, reply.cwd) == (True, "/work")
    assert do(shell.send("pwd")).output == "/work\n"
    do(shell.close())


def test_an_order_that_was_answered_is_not_waited_for(do, place):
    with pytest.raises(SandboxError, match="answered already"):
        do(place._link.answer(1 << 30))
