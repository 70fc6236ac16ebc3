"""A user's file of tasks: what is read, how it is split, and what a fault says."""

import asyncio
import json

import pytest

from burnish.core.errors import ConfigError
from burnish.domains import open_domain
from tests.no_box import NoBox

ROW = {"prompt": "What is 2 + 3?", "truth": 5}


def write(tmp_path, *rows):
    path = tmp_path / "tasks.jsonl"
    path.write_text(
        "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows), encoding="utf-8"
    )
    return path


def rows(num):
    return [{"prompt": f"What is {n} + 1?", "truth": n + 1} for n in range(num)]


def opened(path, **options):
    return open_domain(f"jsonl:{path}", {"verifier": "number", **options})


def prompts(domain, split, seed=1):
    return [domain.task(split, seed, index).messages[0].content for index in range(domain.size(split))]


def test_splits_are_disjoint_whole_and_near_the_asked_fraction(tmp_path):
    domain = opened(write(tmp_path, *rows(400)), eval_fraction=0.25)
    train, held_out = prompts(domain, "train"), prompts(domain, "eval")
    assert not set(train) & set(held_out)
    assert len(set(train + held_out)) == 400
    assert 70 <= len(held_out) <= 130


def test_a_row_keeps_its_split_when_the_file_grows(tmp_path):
    few = set(prompts(opened(write(tmp_path, *rows(100))), "eval"))
    many = set(prompts(opened(write(tmp_path, *rows(300))), "eval"))
    assert len(few - many) <= 1 and len(few) > 5


def test_rows_of_one_source_stay_together(tmp_path):
    path = write(tmp_path, *[{**row, "source": f"book {n % 7}"} for n, row in enumerate(rows(70))])
    domain = opened(path)
    sources = {
        split: {domain.task(split, 1, i).source for i in range(domain.size(split))} for split in ("train", "eval")
    }
    assert not sources["train"] & sources["eval"]
    assert len(sources["train"] | sources["eval"]) == 7


def test_equal_prompts_stay_together(tmp_path):
    domain = opened(write(tmp_path, *rows(40), *rows(40)))
    assert not set(prompts(domain, "train")) & set(prompts(domain, "eval"))


def test_even_two_rows_fill_both_splits(tmp_path):
    domain = opened(write(tmp_path, *rows(2)))
    assert (domain.size("train"), domain.size("eval")) == (1, 1)


def test_the_seed_shuffles_and_equal_seeds_agree(tmp_path):
    domain = opened(write(tmp_path, *rows(50)))
    assert prompts(domain, "train", 1) == prompts(domain, "train", 1)
    assert prompts(domain, "train", 1) != prompts(domain, "train", 2)
    assert sorted(prompts(domain, "train", 1)) == sorted(prompts(domain, "train", 2))


def test_a_task_carries_what_its_row_says(tmp_path):
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi?"}]
    row = {"prompt": messages, "truth": "B", "verifier": "choice", "gold": "(B)", "source": "s", "id": "q1"}
    domain = opened(write(tmp_path, {**row, "max_new_tokens": 7}, ROW))
    task = next(t for split in ("train", "eval") if (t := domain.task(split, 1, 0)).source)
    assert [message.role for message in task.messages] == ["system", "user"]
    assert (task.gold, task.tags, task.limits.max_new_tokens) == ("(B)", ("id:q1",), 7)
    assert asyncio.run(domain.verify(task, "The answer is B.", None)).score == 1.0
    assert asyncio.run(domain.verify(task, "A or B", None)).score == 0.0


@pytest.mark.parametrize(
    ("options", "truth", "gold"),
    [
        ({"verifier": "exact"}, "Paris", "Paris"),
        ({"verifier": "number"}, 5, "5"),
        ({"verifier": "json_fields", "fields": {"a": "number"}}, {"a": 5}, '{"a": 5}'),
        ({"verifier": "regex"}, "a+", None),
    ],
)
def test_the_truth_serves_as_gold_where_it_is_a_right_reply(tmp_path, options, truth, gold):
    path = write(tmp_path, {"prompt": "p", "truth": truth}, {"prompt": "q", "truth": truth})
    assert open_domain(f"jsonl:{path}", options).task("train", 1, 0).gold == gold


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"prompt": "x"', r"tasks.jsonl:2: not valid JSON: .* expected one JSON object"),
        ("[1]", r"tasks.jsonl:2: no JSON object; got '\[1\]'"),
        (r'{"prompt": "\ud800", "truth": 1}', r"tasks.jsonl:2: half of a surrogate pair"),
        (r'{"prompt": "x", "truth": 1, "gold": "\udfff"}', r"tasks.jsonl:2: half of a surrogate pair"),
        ('{"prompt": "x", "truth": NaN}', r"tasks.jsonl:2: NaN is not JSON"),
        ('{"prompt": "x", "prompt": "y", "truth": 1}', r"tasks.jsonl:2: an object with a doubled key"),
        ('{"prompt": "x"}', r"tasks.jsonl:2: 'truth' is missing"),
        ('{"prompt": "x", "truth": 1, "golden": "1"}', r"tasks.jsonl:2: unknown key 'golden'; did you mean 'gold'\?"),
        ('{"prompt": "", "truth": 1}', r"tasks.jsonl:2: 'prompt': .*expected a text, or a list of messages"),
        ('{"prompt": 3, "truth": 1}', r"tasks.jsonl:2: 'prompt': .*expected a text"),
        ('{"prompt": [{"role": "boss", "content": ""}], "truth": 1}', r"tasks.jsonl:2: 'prompt.0.role'"),
        ('{"prompt": "x", "truth": "five"}', r"tasks.jsonl:2: truth: 'five' is no number"),
        ('{"prompt": "x", "truth": 5, "gold": "6"}', r"tasks.jsonl:2: gold scores 0.0, expected 1"),
        ('{"prompt": "x", "truth": 5, "verifier": "nubmer"}', r"tasks.jsonl:2: no verifier 'nubmer'; there are: exact"),
        ('{"prompt": "x", "truth": 5, "max_new_tokens": 0}', r"tasks.jsonl:2: 'max_new_tokens'"),
        ('{"prompt": "What is 2 + 3?", "truth": 5, "source": "a"}', r"tasks.jsonl:2: the prompt of line 1"),
        ("[" * 100_000, r"tasks.jsonl:2: nested deeper"),
    ],
)
def test_a_broken_line_is_one_message_with_file_and_line(tmp_path, line, message):
    with pytest.raises(ConfigError, match=message) as caught:
        opened(write(tmp_path, ROW, line, *rows(3)))
    assert "\n" not in str(caught.value)


def test_an_id_may_stand_once(tmp_path):
    with pytest.raises(ConfigError, match=r"tasks.jsonl:2: id 'a' is that of line 1"):
        opened(write(tmp_path, *[{**row, "id": "a"} for row in rows(2)]))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file has no rows"),
        (b"\n\n", "the file has no rows"),
        (b'{"prompt": "a", "truth": 1}\n', "train or eval would be empty"),
        (b'{"prompt": "a", "truth": 1}\n{"prompt": "\xff"}', r"tasks.jsonl:2: not UTF-8"),
    ],
)
def test_a_file_that_gives_no_tasks_says_why(tmp_path, content, message):
    path = tmp_path / "tasks.jsonl"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=message):
        opened(path)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("jsonl", {}, "needs a file"),
        ("jsonl:none.jsonl", {}, "no file 'none.jsonl'"),
        ("jsonl:none.jsonl", {"eval_fraction": 1.5}, "'eval_fraction'"),
        ("jsonl:none.jsonl", {"verifier": "number", "colour": 1}, "verifier 'number': unknown key 'colour'"),
        ("jsonl:none.jsonl", {"fields": {}}, "without a verifier"),
        ("jsonl:.", {"verifier": "number"}, "cannot read '.'"),
    ],
)
def test_a_wrong_name_or_option_says_what_is_known(name, options, message):
    with pytest.raises(ConfigError, match=message):
        open_domain(name, options)


def test_a_row_without_any_verifier_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"tasks.jsonl:1: no verifier; expected one in the row or in the options"):
        open_domain(f"jsonl:{write(tmp_path, ROW)}")


def test_windows_line_ends_and_a_byte_order_mark_are_read(tmp_path):
    path = tmp_path / "tasks.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + b"\r\n".join(json.dumps(row).encode() for row in rows(5)))
    domain = opened(path)
    assert domain.size("train") + domain.size("eval") == 5


def test_a_second_opinion_is_what_makes_the_domain_execute_code(tmp_path):
    math = [{"prompt": f"What is {n}/2?", "truth": f"$\\frac{{{n}}}{{2}}$", "verifier": "math"} for n in range(9)]
    path = write(tmp_path, *math)
    assert not open_domain(f"jsonl:{path}", {"verifier": "math"}).executes_code
    domain = open_domain(f"jsonl:{path}", {"verifier": "math", "second_opinion": True})
    assert domain.executes_code and domain.task("train", 1, 0).limits.verify_wall_s > 20


def test_rows_are_audited_where_their_verifier_has_a_second_implementation(tmp_path):
    numbers = [{"prompt": f"What is {n}?", "truth": n, "verifier": "number"} for n in range(6)]
    words = [{"prompt": f"Say {n}.", "truth": str(n), "verifier": "exact"} for n in range(6)]
    domain = open_domain(f"jsonl:{write(tmp_path, *numbers, *words)}")
    found = {}
    for index in range(domain.size("train")):
        task = domain.task("train", 1, index)
        second = asyncio.run(domain.second_opinion(task, str(task.truth["answer"]), NoBox()))
        found[task.truth["verifier"]] = second and second.score
    assert found == {"number": 1, "exact": None}
