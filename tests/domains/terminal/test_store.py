"""A store gives back the tasks that were written, lazily, and a writer that is killed leaves none."""

import json
import tracemalloc
from dataclasses import replace
from random import Random

import pytest

from burnish.core.errors import ConfigError
from burnish.domains.terminal import families
from burnish.domains.terminal.spec import TerminalTask, TestsCheck
from burnish.domains.terminal.store import TASKS, open_store
from burnish.domains.terminal.store_writer import writing

LINES = "".join(f"line {number} = {number * number}\n" for number in range(400))
BASE = {"pkg/core.py": LINES.encode(), "pkg/data.bin": b"\xff\x00", "tests/test_core.py": (LINES * 2).encode()}


def of_base(base: str) -> TerminalTask:
    return TerminalTask(
        family="package:pkg",
        level=3,
        instruction="It fails.",
        files={"pkg/core.py": LINES.replace("line 7 = 49", "line 7 = 48"), "new.txt": "ü" * 900, "short": "\r\n"},
        base=base,
        check=TestsCheck(
            required=("tests/test_core.py::t",), tests={"tests/test_core.py": LINES * 2}, modules=("pkg",)
        ),
    )


def test_tasks_come_back_as_they_were_written(tmp_path):
    small = [families.family("fix_line").make(Random(seed), 1) for seed in range(3)]
    with writing(tmp_path / "store") as writer:
        large = of_base(writer.add_base(BASE))
        assert writer.add("train", large) and writer.add("train", small[0]) and writer.add("eval", small[1])
        assert not writer.add("train", large)
    store = open_store(tmp_path / "store")
    assert (store.size("train"), store.size("eval")) == (2, 1)
    assert [store.task("train", 0), store.task("train", 1), store.task("eval", 0)] == [large, *small[:2]]
    folder = store.base_folder(large.base)
    assert {name: (folder / name).read_bytes() for name in BASE} == BASE


def test_a_planted_fault_costs_a_line_and_equal_texts_one_blob(tmp_path):
    with writing(tmp_path / "store") as writer:
        large = of_base(writer.add_base(BASE))
        for level in range(20):
            writer.add("train", replace(large, level=level))
    rows = (tmp_path / "store" / TASKS).read_text().splitlines()
    assert len(rows) == 20 and max(map(len, rows)) < 1500
    files = json.loads(rows[0])["task"]["files"]
    assert files["pkg/core.py"] == {"base": "pkg/core.py", "from": LINES.index("49\nline 8") + 1,
                                    "to": LINES.index("49\nline 8") + 2, "text": "8"}  # fmt: skip
    assert json.loads(rows[0])["task"]["check"]["tests"] == {"tests/test_core.py": {"base": "tests/test_core.py"}}
    assert len(list((tmp_path / "store/blobs").rglob("*/*"))) == 1


def test_ten_thousand_tasks_are_opened_in_little_memory(tmp_path):
    task = families.family("replace_text").make(Random(1), 2)
    with writing(tmp_path / "store") as writer:
        for level in range(10_000):
            writer.add("train", replace(task, level=level))
    tracemalloc.start()
    store = open_store(tmp_path / "store")
    assert store.size("train") == 10_000 and store.task("train", 9_999).level == 9_999
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000


def test_a_writer_that_stops_halfway_leaves_no_store_and_nothing_in_the_way(tmp_path):
    def killed() -> None:
        with writing(tmp_path / "store") as writer:
            writer.add("train", families.family("fix_line").make(Random(0), 0))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        killed()
    with pytest.raises(ConfigError, match=r"no terminal tasks in .*burnish tasks build"):
        open_store(tmp_path / "store")
    with writing(tmp_path / "store"):
        pass
    assert open_store(tmp_path / "store").size("train") == 0
    with pytest.raises(ConfigError, match="exists"), writing(tmp_path / "store"):
        pass


@pytest.mark.parametrize(
    "spoil", [lambda text: text[:-40], lambda text: "{}\n" + text, lambda text: text.replace("blob", "blub")]
)
def test_a_spoiled_store_says_where(tmp_path, spoil):
    with writing(tmp_path / "store") as writer:
        writer.add("train", of_base(writer.add_base(BASE)))
    tasks = tmp_path / "store" / TASKS
    tasks.write_text(spoil(tasks.read_text()))
    with pytest.raises(ConfigError, match=r"tasks\.jsonl, (line 1|task 0 of train): "):
        open_store(tmp_path / "store").task("train", 0)
