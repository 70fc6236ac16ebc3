"""What both sides of a contest share: the work, and how turns are compared."""

import json
import sys

import pytest

from bench.contest import race, workloads
from bench.contest.reward_task import WINDOW, Point, reached
from bench.contest.words import texts_of


def test_all_sides_make_the_same_rows_from_nothing_but_the_shape():
    assert workloads.rows_of("grpo", 3000) == workloads.rows_of("grpo", 3000)
    assert workloads.prompts_of(3, 7) == workloads.prompts_of(3, 7) != workloads.prompts_of(3, 7, seed=1)


def test_rows_of_a_group_share_their_prompt_and_have_about_the_tokens_asked_for():
    rows = workloads.rows_of("grpo", 3000)
    groups = [rows[start : start + workloads.GROUP] for start in range(0, len(rows), workloads.GROUP)]
    assert [len({row.prompt_ids for row in group}) for group in groups] == [1] * len(groups)
    assert 3000 <= workloads.num_tokens_of(rows) < 3000 + workloads.GROUP * (workloads.PROMPT + 256)


def test_rows_of_sft_come_in_order_of_length_so_that_a_peer_pads_little():
    lengths = [row.num_tokens for row in workloads.rows_of("sft", 3000)]
    assert lengths == sorted(lengths) and len(set(lengths)) > 5


def test_reply_lengths_span_the_range_evenly_in_an_order_nobody_knows():
    lengths = workloads.reply_lengths(256, 8, 512)
    assert sorted(lengths)[0] == 8 and sorted(lengths)[-1] == 512 and sum(lengths) / 256 == pytest.approx(260, abs=1)
    assert lengths != sorted(lengths)


@pytest.mark.parametrize(
    ("rewards", "steps"),
    [
        ([0.5] * WINDOW, WINDOW),
        ([0.0, *[0.5] * WINDOW], WINDOW + 1),
        ([1.0, 1.0], None),  # fewer steps than a window
        ([0.4] * 20, None),
        ([1.0, 0.4, 0.4, 0.4, 0.3], WINDOW),  # one good step counts as one of five
    ],
)
def test_a_target_is_reached_by_the_mean_of_a_window(rewards, steps):
    points = [Point(seconds=float(number), reward=reward) for number, reward in enumerate(rewards)]
    assert reached(points, 0.5) == steps


def test_texts_have_the_length_in_tokens_that_was_asked_for():
    class Words:
        def get_vocab(self):
            return {"\u0120one": 0, "\u0120two": 1, "part": 2, "\u0120split": 3}

        def __call__(self, text):
            return {"input_ids": [piece for word in text.split() for piece in ([word] if word != "split" else "ab")]}

    texts = texts_of(Words(), 3, 4)
    assert [len(text.split()) for text in texts] == [4, 4, 4] and "split" not in "".join(texts)


def test_a_peer_that_is_not_there_costs_one_line_that_says_how_to_get_it(monkeypatch, capsys):
    monkeypatch.delenv("BURNISH_TRL_PYTHON", raising=False)
    assert race.peer("trl", "the row") is None
    said = capsys.readouterr().out
    assert said.count("\n") == 1 and "the row" in said and "BURNISH_TRL_PYTHON" in said


def test_sides_take_turns_in_processes_of_their_own_and_their_medians_count(tmp_path, monkeypatch):
    package = tmp_path / "bench" / "contest"
    package.mkdir(parents=True)
    (package / "side.py").write_text(
        "import json, os, pathlib\n"
        "order = pathlib.Path('order')\n"
        "order.write_text((order.read_text() if order.exists() else '') + os.environ['WHO'])\n"
        "seconds = float(order.read_text().count('b'))\n"
        "print('noise')\n"
        "print(json.dumps({'wall_s': {'all': seconds}, 'cpu_s': {}, 'numbers': {}, 'versions': {}}))\n"
    )
    monkeypatch.setattr(race, "ROOT", tmp_path)
    sides = [race.Side(name=who, module="side", python=sys.executable, environment={"WHO": who}) for who in "ab"]
    found = race.race(sides, {"threads": 1}, num_rounds=3)
    assert (tmp_path / "order").read_text() == "abbaab"
    assert found["b"].wall_s("all") == 2.0


def test_a_side_that_fails_says_what_it_said(tmp_path, monkeypatch):
    package = tmp_path / "bench" / "contest"
    package.mkdir(parents=True)
    (package / "side.py").write_text("raise SystemExit('no such thing')")
    monkeypatch.setattr(race, "ROOT", tmp_path)
    with pytest.raises(SystemExit, match="no such thing"):
        race.race([race.Side(name="a", module="side")], {"threads": 1, "said": json.dumps("x")}, num_rounds=1)
