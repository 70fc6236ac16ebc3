"""The world of a terminal episode: what each tool does, what is told, what is recorded."""

import os
from pathlib import Path

import pytest

from tests.domains.terminal.working import EDIT, FIX, SUBMIT, TEST, played, shell


def told(outdoors, *calls, **settings):
    seen, _ = outdoors.run(played(outdoors.backend, FIX, calls, **settings))
    return [one.text for one in seen]


def kinds(outdoors, *calls):
    seen, _ = outdoors.run(played(outdoors.backend, FIX, calls))
    return [
        [(event["kind"], event["path"], event["first_line"], event["last_line"]) for event in one.events]
        for one in seen
    ]


def test_a_shell_keeps_its_folder_and_says_how_a_command_ended(outdoors):
    calls = [shell("mkdir a && cd a && pwd"), shell("pwd; exit_code() { return 3; }; exit_code"), shell("true")]
    assert told(outdoors, *calls) == ["/work/a", "/work/a\n[exit code 3]", "[no output]"]


def test_a_command_that_does_not_end_is_stopped_and_the_next_one_runs(outdoors):
    slow, after = told(outdoors, shell("sleep 60"), shell("echo on"), command_s=0.3)
    assert "[stopped after 0.3 s]" in slow and after == "on"


def test_a_shell_that_has_ended_is_followed_by_a_new_one(outdoors):
    ended, after = told(outdoors, shell("exit 2"), shell("echo on"))
    assert "the shell has ended" in ended and after == "on"


def test_a_long_output_is_cut_in_the_middle_and_paged(outdoors):
    shown, paged = told(outdoors, shell("seq 1 2000"), ("page", {"start": 4000}), observation_chars=300)
    assert shown.startswith("1\n2\n") and shown.endswith("\n1999\n2000") and "characters left out; page " in shown
    assert paged.startswith("22\n1023\n")
    assert len(shown) < 400 and "characters follow" in paged


def test_a_file_is_viewed_by_lines_and_a_folder_by_names(outdoors):
    whole, part, folder, none = told(
        outdoors, ("view", {"path": "sums.py"}), ("view", {"path": "/work/sums.py", "first": 5, "last": 9}),
        ("view", {"path": "."}), ("view", {"path": "nothing.py"}),
    )  # fmt: skip
    assert whole.startswith("1\tdef double(n):\n2\t    return n * 3")
    assert part == "5\tdef half(n):\n6\t    return n // 2"
    assert folder == "sums.py\ntest_sums.py"
    assert none == "no file 'nothing.py'"


def test_edits_change_files_and_are_taken_back_one_by_one(outdoors):
    calls = [
        EDIT, ("insert", {"path": "sums.py", "line": 0, "content": "# sums"}), shell("head -3 sums.py"),
        ("undo", {"path": "sums.py"}), ("undo", {"path": "sums.py"}), shell("cat sums.py"),
        ("undo", {"path": "sums.py"}),
    ]  # fmt: skip
    said = told(outdoors, *calls)
    assert said[2] == "# sums\ndef double(n):\n    return n * 2"
    assert said[5] + "\n" == FIX.files["sums.py"]
    assert said[6] == "'sums.py' was not changed"


def test_a_file_that_was_created_is_gone_after_undo(outdoors):
    said = told(outdoors, ("create", {"path": "new/a.txt", "content": "x"}), shell("cat new/a.txt"),
                ("undo", {"path": "new/a.txt"}), shell("ls new"))  # fmt: skip
    assert said[1] == "x" and said[3] == "[no output]"


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        (("replace", {"path": "sums.py", "old": "return", "new": "x"}), "several times, in lines 2, 6"),
        (("replace", {"path": "sums.py", "old": "return n * 9", "new": "x"}), "does not stand in the file"),
        (("insert", {"path": "sums.py", "line": 99, "content": "x"}), "the file has 6 lines"),
        (("replace", {"path": "test_sums.py", "old": "4", "new": "6"}), "must stay as it is"),
        (("create", {"path": "/etc/passwd", "content": "x"}), "bad path"),
        (("create", {"path": "../../etc/passwd", "content": "x"}), "bad path"),
        (("view", {"path": "/etc/shadow"}), "no file"),
        (shell("   "), "an empty command"),
        ("No call.", "No call."),
    ],
)
def test_what_cannot_be_done_is_told_in_a_few_words(outdoors, call, complaint):
    [said] = told(outdoors, call)
    assert complaint in said and len(said) < 400


def test_events_say_what_was_looked_at_searched_edited_and_undone_also_from_the_shell(outdoors):
    assert kinds(
        outdoors, shell("cat sums.py"), shell("grep -n 'def half' *.py"), shell("sed -n 1,2p sums.py"),
        shell("sed -i 's/n . 3/n * 2/' sums.py"), ("view", {"path": "sums.py", "first": 1, "last": 2}),
        ("undo", {"path": "sums.py"}), EDIT, shell("ls"), SUBMIT,
    ) == [
        [("look", "sums.py", 0, 0)], [("search", "sums.py", 5, 5)], [("look", "sums.py", 1, 2)],
        [("command", "", 0, 0), ("edit", "sums.py", 2, 2)], [("look", "sums.py", 1, 2)],
        [("undo", "sums.py", 2, 2)], [("edit", "sums.py", 2, 2)], [("command", "", 0, 0)], [("submit", "", 0, 0)],
    ]  # fmt: skip


def test_a_test_run_says_which_tests_fail(outdoors):
    seen, _ = outdoors.run(played(outdoors.backend, FIX, [shell(TEST), EDIT, shell(f"cd /work; {TEST} | tail -3")]))
    assert [one.events[0]["failing"] for one in seen if one.events[0]["kind"] == "test"] == [
        ["test_sums.py::test_double"], [],
    ]  # fmt: skip


def test_a_test_run_that_was_only_printed_is_not_believed(outdoors):
    forged = shell(f"echo 'FAILED test_sums.py::test_double'; {TEST} -k nothing")
    seen, _ = outdoors.run(played(outdoors.backend, FIX, [forged]))
    assert [event["failing"] for event in seen[0].events if event["kind"] == "test"] == [None]


def test_an_episode_leaves_nothing_running(outdoors):
    """Neither its place nor the one that was prepared for its task: their keepers are children of this process."""
    before = _children()
    outdoors.run(played(outdoors.backend, FIX, [shell("sleep 1000 & disown; echo $!")]))
    assert _children() <= before


def _children() -> set[str]:
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())
