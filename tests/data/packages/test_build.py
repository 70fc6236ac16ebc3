"""Faults are kept by what tests say of them, in one order, and none is tried twice; the sandbox is stood in for."""

import asyncio
from collections import Counter

import pytest

from burnish.data.mutations.edits import apply
from burnish.data.packages.build import Built, build, folder_of
from burnish.data.packages.sites import HELD_OUT_KINDS
from burnish.domains.terminal import package_tasks
from tests.data.packages import tiny


def built(work, num=12, *, num_workers=2, runner=None, box=None, **changed) -> Built:
    tree = tiny.tree(**changed)
    folder = folder_of(tree, work)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "survey.json").write_text(tiny.survey().model_dump_json())
    run, screens = runner or tiny.RunsHere(), box or tiny.ScreensHere()
    return asyncio.run(build(tree, num, 0, screens, run, work, num_workers=num_workers))


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Built:
    return built(tmp_path_factory.mktemp("work"))


def test_what_is_kept_fails_some_tests_and_leaves_most(whole):
    assert len(whole.kept) == 12 and whole.counts["equivalent"] > 0
    for trial in whole.kept:
        assert trial.failing and trial.passing and not set(trial.failing) & set(trial.passing)
        space: dict = {}
        exec(apply(tiny.CORE, [edit for fault in trial.faults for edit in fault.edits]), space)
        assert not tiny._holds(tiny.CASES[trial.failing[0].partition("::")[2]], space)
    kinds = Counter(fault.kind for trial in whole.kept for fault in trial.faults)
    assert len(kinds) >= 5
    assert sorted(len(trial.faults) > 1 for trial in whole.kept) == [False] * 9 + [True] * 3


def test_more_workers_find_the_same(whole, tmp_path):
    assert built(tmp_path, num_workers=5).kept == built(tmp_path / "b", num_workers=1).kept == whole.kept


def test_a_second_build_tries_nothing_again_and_a_larger_one_goes_on(whole, tmp_path):
    first, again, more = tiny.RunsHere(), tiny.RunsHere(), tiny.RunsHere()
    built(tmp_path, 6, runner=first)
    built(tmp_path, 6, runner=again)
    assert first.num_asked >= 6 and again.num_asked == 0
    assert built(tmp_path, 12, runner=more).kept == whole.kept and more.num_asked > 0


def test_a_build_that_was_killed_goes_on_from_its_last_whole_line(whole, tmp_path):
    class Killed(BaseException):
        pass

    class DiesAfterFive(tiny.RunsHere):
        async def __call__(self, files, ids, wall_s):
            if self.num_asked == 5:
                raise Killed
            return await super().__call__(files, ids, wall_s)

    with pytest.raises(Killed):
        built(tmp_path, num_workers=1, runner=DiesAfterFive())
    (trials,) = tmp_path.glob("*/trials-*.jsonl")
    num_whole = len(trials.read_bytes().splitlines())
    trials.write_bytes(trials.read_bytes() + b'{"key": "torn')
    after, fresh = tiny.RunsHere(), tiny.RunsHere()
    assert built(tmp_path, runner=after).kept == whole.kept
    built(tmp_path / "fresh", runner=fresh)
    assert num_whole >= 5 and after.num_asked == fresh.num_asked - 5


def test_tests_that_hang_make_no_task(tmp_path):
    class Hangs(tiny.RunsHere):
        async def __call__(self, files, ids, wall_s):
            return None

    found = built(tmp_path, 3, runner=Hangs())
    assert not found.kept and set(found.counts) == {"hangs", "equivalent"}


def test_a_task_shows_half_of_what_fails_and_tells_nothing(whole):
    tree = whole.tree
    for trial in whole.kept:
        task = package_tasks.task_of(tree, trial, "b" * 64)
        (file, text), *_ = [(name, text) for name, text in task.files.items() if name.startswith("tiny/")]
        for call in [call["arguments"] for call in task.oracle if call["name"] == "replace"]:
            assert text.count(call["old"]) == 1
            text = text.replace(call["old"], call["new"])
        assert text == tree.sources[file]
        changed = {line.strip() for edit in trial.faults[0].edits for line in (edit.before, edit.after)}
        assert not any(line in task.instruction for line in changed if len(line) > 12)
        shown = task.files.get("tests/test_core.py", tree.tests["tests/test_core.py"])
        hidden = set(task.check.required) - task.fault.failing
        assert all(f"def {name.rpartition('::')[2]}(" not in shown for name in hidden)
        assert all(f"def {name.rpartition('::')[2]}(" in shown for name in task.fault.failing)
        assert len(hidden) >= len(task.check.required) // 2 and task.fault.failing
        place = task.fault.places[0]
        assert place.first_line <= trial.faults[0].line <= place.last_line


def test_packages_and_kinds_are_held_out(whole):
    for trial in whole.kept:
        kinds = {fault.kind for fault in trial.faults}
        assert package_tasks.split_of(whole.tree, trial) == ("eval" if kinds & HELD_OUT_KINDS else "train")
        assert package_tasks.split_of(tiny.tree(is_held_out=True), trial) == "eval"
    tasks = [package_tasks.task_of(whole.tree, trial, "b" * 64) for trial in whole.kept]
    told = {split: {task.instruction for task, trial in zip(tasks, whole.kept, strict=True)
                    if package_tasks.split_of(whole.tree, trial) == split} for split in ("train", "eval")}  # fmt: skip
    assert told["train"] and told["eval"] and not told["train"] & told["eval"]
