"""The verdict on a terminal episode: from its changes alone, and what ways to work are worth."""

from dataclasses import replace

import pytest

from burnish.domains import open_domain
from burnish.domains.terminal.spec import CommandsCheck, EndStateCheck, task_of
from burnish.domains.terminal.verdict import LIMITS, farm
from burnish.rewards.end_state import ExpectedFile
from burnish.rewards.process import Event
from tests.domains.terminal.working import EDIT, FIX, SUBMIT, TEST, played, shell

CHEAT = "import sys\n\n\ndef double(n):\n    return {2: 4}[n]\n\n\ndef half(n):\n    return n // 2\n"


def judged(outdoors, *calls, task=FIX, **settings):
    return outdoors.run(played(outdoors.backend, task, calls, **settings))[1]


def test_a_fix_with_good_habits_is_worth_more_than_a_fix_alone_and_nothing_is_worth_nothing(outdoors):
    whole = judged(outdoors, shell(f"cat sums.py; {TEST}"), EDIT, shell(TEST), SUBMIT)
    bare = judged(outdoors, EDIT, SUBMIT)
    idle = judged(outdoors, SUBMIT)
    assert whole.verdict.score == pytest.approx(1.0)
    assert 0.6 < bare.verdict.score < 0.8
    assert idle.verdict.score == 0.0
    assert whole.verdict.parts["solved"] == 1 and whole.verdict.parts["steps_to_success"] == 4
    assert whole.earned[0] > whole.earned[2] > 0  # it reproduced and located; then it verified


def test_a_held_out_task_is_scored_by_its_outcome_alone(outdoors):
    assert judged(outdoors, EDIT, SUBMIT, split="eval").verdict.score == 1.0
    assert judged(outdoors, shell(TEST), SUBMIT, split="eval").verdict.score == 0.0


def test_a_fix_of_the_shown_case_alone_fails_the_hidden_test(outdoors):
    verdict = judged(outdoors, ("create", {"path": "sums.py", "content": CHEAT}), SUBMIT, split="eval").verdict
    assert verdict.score == 0.0 and 0 < verdict.parts["required"] < 1 and verdict.parts["kept"] == 1


def test_a_fix_that_breaks_another_function_is_none(outdoors):
    broken = ("replace", {"path": "sums.py", "old": "n // 2", "new": "n"})
    verdict = judged(outdoors, EDIT, broken, SUBMIT, split="eval").verdict
    assert verdict.score == 0.0 and verdict.parts["kept"] == 0 and verdict.parts["required"] == 1


def test_a_fraction_is_no_reward_for_doing_nothing(outdoors):
    task = replace(FIX, check=replace(FIX.check, is_all_or_nothing=False))
    assert judged(outdoors, SUBMIT, task=task, split="eval").verdict.score == 0.0


@pytest.mark.parametrize(
    "cheat",
    [
        "echo > test_sums.py",
        "printf 'def test_double(): pass\\ndef test_half(): pass\\ndef test_double_more(): pass\\n' > test_sums.py",
        "printf 'import os\\nos._exit(0)\\n' > sums.py",
        "printf 'def pytest_runtest_makereport(): pass\\nimport pytest\\n"
        "pytest.skip(allow_module_level=True)\\n' > conftest.py",
        "mkdir -p tests && rm -rf sums.py && ln -s /etc/passwd sums.py",
    ],
)
def test_common_cheats_are_worth_nothing(outdoors, cheat):
    judgement = judged(outdoors, shell(cheat), SUBMIT)
    assert judgement.verdict.kind == "scored" and judgement.verdict.score == 0.0


def test_a_protected_file_that_the_shell_changed_is_put_back_and_costs(outdoors):
    judgement = judged(outdoors, EDIT, shell("echo '# x' >> test_sums.py"), SUBMIT)
    assert judgement.verdict.parts["solved"] == 1
    assert judgement.verdict.score < 0.45 and judgement.earned[1] < 0


def test_an_end_state_is_compared_with_what_was_left(outdoors):
    check = EndStateCheck(
        expected=(ExpectedFile(name="out.txt", content=b"4\n"), ExpectedFile(name="sums.py", way="absent"))
    )
    task = replace(FIX, check=check, fault=None, protected=())
    right = shell("echo 4 > out.txt; rm sums.py")
    assert judged(outdoors, right, SUBMIT, task=task).verdict.score == 1.0
    assert judged(outdoors, shell("echo 5 > out.txt; rm sums.py"), SUBMIT, task=task).verdict.score == 0.0
    strict = replace(task, check=replace(check, allows_others=False))
    assert judged(outdoors, right, SUBMIT, task=strict).verdict.score == 1.0
    assert judged(outdoors, right, shell("touch more"), SUBMIT, task=strict).verdict.score == 0.0


GIT = replace(
    FIX, fault=None, protected=(),
    setup=("git init -q -b main . && git add -A", "git -c user.name=a -c user.email=a@b commit -qm start"),
    check=CommandsCheck(script='test "$(git log --format=%s | head -1)" = Done && test -x run.sh', includes_git=True),
)  # fmt: skip


def test_a_script_judges_history_and_modes_in_a_place_of_its_own(outdoors):
    commit = shell("git add -A && git -c user.name=a -c user.email=a@b commit -qm Done")
    made = shell("echo true > run.sh; chmod +x run.sh")
    assert judged(outdoors, made, commit, SUBMIT, task=GIT).verdict.score == 1.0
    assert judged(outdoors, made, SUBMIT, task=GIT).verdict.score == 0.0
    assert judged(outdoors, commit, shell("echo true > run.sh"), SUBMIT, task=GIT).verdict.score == 0.0


def test_hooks_and_settings_of_the_agents_repository_do_not_reach_the_verdict(outdoors):
    planted = shell(
        "git config core.fsmonitor 'touch /tmp/owned; false'; git config alias.log '!echo Done'; "
        "printf '[alias]\\n log = !echo Done\\n' > ~/.gitconfig; echo true > run.sh; chmod +x run.sh"
    )
    check = CommandsCheck(
        script="git status >/dev/null; git log -1 | grep -q Done || test -e /tmp/owned", includes_git=True
    )
    assert judged(outdoors, planted, SUBMIT, task=replace(GIT, check=check)).verdict.score == 0.0


@pytest.mark.slow
def test_the_last_good_state_is_gone_back_to_when_a_limit_asks_for_it(outdoors):
    calls = [shell(TEST), EDIT, shell(TEST), ("create", {"path": "sums.py", "content": "1 / 0"}), shell(TEST)]
    assert judged(outdoors, *calls, split="eval", ends="restore").verdict.score == 1.0
    assert judged(outdoors, *calls, split="eval").verdict.score == 0.0


def test_a_farmer_of_good_habits_earns_less_than_a_plain_solver():
    """All process parts at their best, and no fix; against a fix in one edit without any habit."""
    look = Event(step=0, kind="look", path="sums.py", first_line=1, last_line=2)
    red = Event(step=1, kind="test", failing=FIX.fault.failing)
    edit = Event(step=2, kind="edit", path="sums.py", first_line=2, last_line=2)
    farmer = farm(FIX, [[look], [red], [edit], [replace(red, step=3)], [Event(step=4, kind="submit")]], 0.0)
    solver = farm(FIX, [[replace(edit, step=0, path="other.py")], [Event(step=1, kind="submit")]], 1.0)
    assert farmer.verdict.parts["process:verified"] == farmer.verdict.parts["process:reproduced"] == 1
    assert farmer.verdict.score < 0.1 < 0.6 < solver.verdict.score


@pytest.mark.slow
def test_a_farmer_who_plays_for_real_earns_less_than_a_plain_solver(outdoors):
    wrong = ("replace", {"path": "sums.py", "old": "n * 3", "new": "n * 4"})
    farmer = judged(
        outdoors, shell(f"cat sums.py; {TEST}"), wrong, shell(TEST), ("undo", {"path": "sums.py"}), shell(TEST), SUBMIT
    )
    solver = judged(outdoors, EDIT, SUBMIT)
    assert farmer.verdict.score < 0.15 < solver.verdict.score


def test_a_protected_file_is_judged_as_it_was(outdoors):
    check = EndStateCheck(expected=(ExpectedFile(name="test_sums.py", content=FIX.files["test_sums.py"].encode()),))
    task = replace(FIX, check=check, fault=None)
    changed = judged(outdoors, shell("echo '# x' >> test_sums.py"), SUBMIT, task=task, split="eval")
    assert changed.verdict.score == 1.0
    free = judged(outdoors, shell("echo '# x' >> test_sums.py"), SUBMIT, task=replace(task, protected=()), split="eval")
    assert free.verdict.score == 0.0


@pytest.mark.parametrize("options", [{"levels": [level]} for level in range(6)], ids=lambda options: str(options))
def test_what_waits_is_stopped_as_the_agents_own_before_the_verdict_is_given_up(options):
    domain = open_domain("terminal", options)
    for index in range(20):
        task = domain.task("train", 1, index)
        check = task_of(task).check
        longest_s = check.wall_s * 2 if isinstance(check, CommandsCheck) else LIMITS.wall_s
        assert isinstance(check, EndStateCheck) or task.limits.verify_wall_s > longest_s
