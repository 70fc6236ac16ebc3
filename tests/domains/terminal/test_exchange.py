"""Tasks go out as Harbor folders and come back solvable; rows of SWE-smith and SWE-bench become tasks."""

import json
from random import Random

import pytest

from burnish.commands.tasks_exchange import export_command, import_command
from burnish.core.errors import ConfigError
from burnish.data import harbor
from burnish.domains.terminal import families
from burnish.domains.terminal.harbor_export import to_harbor
from burnish.domains.terminal.harbor_import import from_harbor
from burnish.domains.terminal.oracle import shell, submit
from burnish.domains.terminal.store import open_store
from burnish.domains.terminal.store_writer import writing
from tests.domains.terminal.leaks import ANSWER, FORGERIES, HIDDEN
from tests.domains.terminal.solving import judged_verdict, outcome

FOLDER = {
    "task.toml": 'schema_version = "1.4"\n[metadata]\ndifficulty = "easy"\n',
    "instruction.md": "Write done to /app/out.txt, tests are in /tests/test.sh.\n",
    "environment/Dockerfile": "FROM debian:12\nWORKDIR /app\nCOPY in.txt .\nRUN mkdir -p made && echo 1 > made/one\n",
    "environment/in.txt": "see /app/out.txt and /apparent\n",
    "tests/test.sh": "cd /app; grep -q done out.txt && test -e made/one && ok=1\n"
    "echo ${ok:-0} > /logs/verifier/reward.txt\n",
    "solution/solve.sh": "echo done > /app/out.txt\n",
}
FAULTY = "def add(a, b):\n    return a - b\n"
RIGHT = FAULTY.replace("-", "+")
BUG = "--- a/calc/core.py\n+++ b/calc/core.py\n@@ -1,2 +1,2 @@\n def add(a, b):\n-    return a + b\n+    return a - b\n"
TESTS = (
    "from calc.core import add\ndef test_add():\n    assert add(1, 2) == 3\n"
    "def test_zero():\n    assert add(1, 0) == 1\n"
)
TREE = {"calc/__init__.py": "", "calc/core.py": RIGHT, "tests/test_core.py": TESTS, ".git/HEAD": "ref: x\n"}
ROW = {
    "instance_id": "me__calc.1", "repo": "me/calc", "problem_statement": "add is wrong", "patch": BUG,
    "image_name": "img",
    "FAIL_TO_PASS": ["tests/test_core.py::test_add"], "PASS_TO_PASS": ["tests/test_core.py::test_zero"],
}  # fmt: skip


def write(folder, files):
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def scores(outdoors, task, *attempts, base=None):
    return [outdoors.run(outcome(outdoors.backend, task, calls, base))[0] for calls in attempts]


@pytest.mark.parametrize(
    ("name", "level"), [("count_log", 1), ("git_commit", 1), ("repair_script", 0), ("fix_line", 1)]
)
def test_an_exported_task_comes_back_solvable(outdoors, tmp_path, name, level):
    task = families.family(name).make(Random(2), level)
    harbor.write_folder(tmp_path / "task", *to_harbor(task, {}, f"burnish/{name}"))
    back = from_harbor(harbor.read_folder(tmp_path / "task"))
    assert back.instruction == task.instruction
    assert scores(outdoors, back, back.oracle, ()) == [1.0, 0.0]


def test_a_harbor_task_runs_with_its_paths_moved(outdoors, tmp_path):
    task = from_harbor(harbor.read_folder(write(tmp_path, FOLDER)))
    assert task.instruction == "Write done to /work/out.txt, tests are in /tmp/harbor/tests/test.sh."
    assert task.files == {"in.txt": "see /work/out.txt and /apparent\n"} and task.level == 3
    assert scores(outdoors, task, task.oracle, ()) == [1.0, 0.0]


def test_reward_files_that_disagree_are_no_solution(outdoors, tmp_path):
    both = FOLDER["tests/test.sh"] + "echo 0 > /logs/verifier/reward.json\n"
    task = from_harbor(harbor.read_folder(write(tmp_path, FOLDER | {"tests/test.sh": both})))
    planted = (shell("mkdir -p /tmp/harbor/logs/verifier; echo 1 > /tmp/harbor/logs/verifier/reward.json"),)
    assert scores(outdoors, task, task.oracle, planted) == [0.0, 0.0]


def verdict_of(outdoors, task, calls=()):
    return outdoors.run(judged_verdict(outdoors.backend, task, calls))


@pytest.mark.parametrize(
    ("tests", "in_the_start", "after"),
    [
        ("exit 0", "infrastructure_error", "infrastructure_error"),  # never writes a reward
        ("echo nan > /logs/verifier/reward.txt", "infrastructure_error", "infrastructure_error"),
        ("cd /app; bash ./out.txt; echo 0 > /logs/verifier/reward.txt", "scored", "scored"),
        ("sleep 60", "infrastructure_error", "infrastructure_error"),
    ],
)
def test_a_check_that_says_nothing_of_the_start_is_nobodys_failure(outdoors, tmp_path, tests, in_the_start, after):
    toml = FOLDER["task.toml"] + "[verifier]\ntimeout_sec = 2.0\n"
    folder = write(tmp_path, FOLDER | {"tests/test.sh": tests, "task.toml": toml})
    task = from_harbor(harbor.read_folder(folder))
    assert verdict_of(outdoors, task).kind == in_the_start
    kill = (shell("echo 'kill -9 $PPID' > out.txt"), submit())
    found = verdict_of(outdoors, task, kill)
    assert found.kind == after and (found.score or 0.0) == 0.0


def test_a_runner_of_terminal_bench_that_cannot_run_is_nobodys_failure(outdoors, tmp_path):
    files = {
        "task.yaml": "instruction: Write done to /app/out.txt\ndifficulty: easy\n",
        "Dockerfile": "FROM debian:12\nWORKDIR /app\n", "solution.sh": "echo done > /app/out.txt\n",
    }  # fmt: skip
    there = {"run-tests.sh": "grep -q done /app/out.txt\n"}
    task = from_harbor(harbor.read_folder(write(tmp_path / "a", files | there)))
    assert scores(outdoors, task, task.oracle, ()) == [1.0, 0.0]
    lacks = from_harbor(harbor.read_folder(write(tmp_path / "b", files | {"run-tests.sh": "no-such-runner\n"})))
    assert verdict_of(outdoors, lacks, lacks.oracle).kind == "infrastructure_error"


def test_what_needs_a_container_is_left_out_and_told(tmp_path, capsys):
    write(tmp_path / "in/good", FOLDER)
    write(tmp_path / "in/image", FOLDER | {"environment/Dockerfile": "FROM ghcr.io/a/b:2\n"})
    import_command(tmp_path / "in", tmp_path / "out", None)
    assert "needs a container backend: instruction 1 of its Dockerfile builds on" in capsys.readouterr().err
    store = open_store(tmp_path / "out")
    assert store.size("train") + store.size("eval") == 1
    with pytest.raises(ConfigError, match="can run here; 1 were left out"):
        import_command(tmp_path / "in/image", tmp_path / "none", None)
    assert not (tmp_path / "none").exists()


def test_a_package_task_goes_out_and_comes_back_and_is_not_forged(outdoors, made):
    task, base = made
    tree = {str(path.relative_to(base)): path.read_bytes() for path in base.rglob("*") if path.is_file()}
    folder, _ = to_harbor(task, tree, "burnish/tiny")
    laid_out = b"".join(folder.environment.values())
    assert ANSWER.encode() not in laid_out and HIDDEN.encode() not in laid_out
    back = from_harbor(folder)
    assert scores(outdoors, back, back.oracle, ()) == [1.0, 0.0]
    told = outdoors.run(outcome(outdoors.backend, back, (shell("git status --short; git log --oneline | wc -l"),)))[1]
    assert told.split()[0] == "1", told
    for name, calls in FORGERIES.items():
        if name not in ("a patched runner", "an agreeable value"):  # which only the watch of our own verdict sees
            assert scores(outdoors, back, (*calls, submit())) == [0.0], name


@pytest.mark.parametrize("kind", ["swe-smith", "swe-bench"])
def test_a_row_becomes_a_task_over_its_source_tree(outdoors, tmp_path, kind):
    row = dict(ROW)
    tree = dict(TREE)
    if kind == "swe-bench":  # its patch mends, and the tree is as it was before
        tree |= {"calc/core.py": FAULTY, "tests/test_core.py": TESTS.partition("def test_zero")[0]}
        added = "--- a/tests/test_core.py\n+++ b/tests/test_core.py\n@@ -3,0 +4,2 @@\n"
        added += "".join(f"+{line}\n" for line in TESTS.splitlines()[3:])
        row |= {"base_commit": "c0", "image_name": None, "patch": _reversed(BUG), "test_patch": added}
    write(tmp_path / "sources/me__calc.1", tree)
    (tmp_path / "rows.jsonl").write_text(json.dumps(row) + "\n")
    import_command(tmp_path / "rows.jsonl", tmp_path / "out", tmp_path / "sources")
    store = open_store(tmp_path / "out")
    (task,) = [store.task(split, number) for split in ("train", "eval") for number in range(store.size(split))]
    assert not any(name.startswith(".git") for name in task.files) and task.family == kind
    assert not (store.base_folder(task.base) / ".git").exists()
    assert scores(outdoors, task, task.oracle, (), base=store.base_folder(task.base)) == [1.0, 0.0]


def test_a_row_without_its_tree_says_what_it_needs(tmp_path):
    (tmp_path / "rows.jsonl").write_text(json.dumps(ROW) + "\n")
    with pytest.raises(ConfigError, match=r"no task of .* can run here"):
        import_command(tmp_path / "rows.jsonl", tmp_path / "out", None)


def test_a_store_is_exported(tmp_path):
    with writing(tmp_path / "store") as writer:
        for seed in range(3):
            writer.add("train", families.family("fix_line").make(Random(seed), 0))
    export_command(tmp_path / "store", tmp_path / "out", "train", 2)
    found = list(harbor.folders(tmp_path / "out"))
    assert [folder.name for folder in found] == ["fix_line-train-00000", "fix_line-train-00001"]
    assert harbor.read_folder(found[0]).config.environment.network_mode == "no-network"


def _reversed(diff: str) -> str:
    swap = {"-    return": "+    return", "+    return": "-    return"}
    lines = [swap.get(line[:11], line[:11]) + line[11:] for line in diff.splitlines()]
    return "\n".join([*lines[:-2], lines[-1], lines[-2], ""])
