"""`burnish tasks` and `burnish verify`: what a person sees of a domain."""

import json
import sys

import pytest

from burnish.commands.verify import compare
from burnish.core import plugins
from burnish.core.types import Verdict
from burnish.domains import open_domain

DOMAIN = '''"""Echo a word; for tests.

**State**: a word.

**Action**: a word.

**Reward**: {share} for the word.
"""
import itertools
from burnish.core.types import Message, Task, Verdict

COUNTER = itertools.count()

class Echo:
    name = "outside.{file}"
    executes_code = False
    def size(self, split):
        return 2
    def task(self, split, seed, index):
        word = {word}
        return Task(id=f"{{self.name}}/{{split}}/{{seed}}/{{index}}", domain=self.name, gold=word, truth={{}},
                    messages=(Message(role="user", content=f"Say {{word}} and stop!"),))
    async def verify(self, task, reply, box):
        return Verdict.scored({share} if reply == task.gold else {empty}, {{"word": {share}}}, "looked at it")

def load(argument, options):
    return Echo()
'''


@pytest.fixture
def outside(tmp_path, monkeypatch):
    """Write a domain that is wrong in one way into a package outside."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(file, share=1.0, empty=0.0, word='f"{split}{seed}{index}"'):
        monkeypatch.delitem(sys.modules, f"outside.{file}", raising=False)
        (tmp_path / "outside").mkdir(exist_ok=True)
        (tmp_path / "outside" / f"{file}.py").write_text(DOMAIN.format(file=file, share=share, empty=empty, word=word))
        return f"outside.{file}"

    return write


def test_the_list_names_every_domain_with_what_it_is(burnish):
    lines = burnish("tasks", "list").stdout.splitlines()
    assert [line.split()[0] for line in lines] == plugins.names("domains")
    assert all(len(line.split()) > 3 for line in lines)


@pytest.mark.parametrize("name", plugins.names("domains"))
def test_every_domain_states_its_state_action_and_reward(burnish, name):
    result = burnish("tasks", "show", name)
    assert result.exit_code == 0, result.stderr
    assert [word for word in ("State", "Action", "Reward") if f"\n\n**{word}" not in result.stdout] == []


def test_an_unknown_domain_lists_the_known_ones(refusal):
    assert "no plugin 'dox' in domains; there are: " in refusal("tasks", "show", "dox")


def test_a_sample_shows_prompt_truth_and_gold_and_equal_seeds_print_the_same(burnish):
    first = burnish("tasks", "sample", "documents", "--n", 2, "--seed", 5).stdout
    task = open_domain("documents").task("train", 5, 1)
    assert task.gold is not None
    assert all(words in first for words in (task.id, task.messages[-1].content, task.gold, "truth (hidden)"))
    assert first == burnish("tasks", "sample", "documents", "--n", 2, "--seed", 5).stdout
    assert first != burnish("tasks", "sample", "documents", "--n", 2, "--seed", 6).stdout


def test_a_sample_ends_where_the_split_ends(burnish, outside):
    assert burnish("tasks", "sample", outside("short"), "--n", 9).stdout.count("=== ") == 2


def test_a_split_that_does_not_exist_is_refused(refusal):
    assert "no split 'test'; there are: train, eval" in refusal("tasks", "sample", "documents", "--split", "test")


def test_a_domain_that_keeps_its_promises_passes_its_check(burnish, outside):
    result = burnish("tasks", "check", outside("right"))
    assert (result.exit_code, result.stderr) == (0, "")
    assert "in common between train and eval: 0 prompts, 0 sources" in result.stdout


@pytest.mark.parametrize(
    ("file", "wrong", "claim"),
    [
        ("cheap", {"share": 0.9}, "gold scores 1"),
        ("generous", {"empty": 0.1}, "an empty reply scores 0"),
        ("fickle", {"word": "str(next(COUNTER))"}, "equal seeds, equal tasks"),
    ],
)
def test_a_domain_that_breaks_a_promise_fails_its_check(burnish, outside, file, wrong, claim):
    result = burnish("tasks", "check", outside(file, **wrong))
    assert result.exit_code == 1
    assert f"train: {claim}: not so for outside.{file}/train/1/0" in result.stderr


def test_a_verdict_is_explained_part_by_part(burnish, outside, tmp_path):
    (tmp_path / "reply.txt").write_text("eval10")
    result = burnish("verify", outside("right"), "outside.right/eval/1/0", "--reply", "reply.txt")
    assert result.stdout == "outside.right/eval/1/0: scored, score 1\n  word  1\nevidence: looked at it\n"


def test_a_second_implementation_is_heard_where_there_is_one(burnish, tmp_path):
    rows = [{"prompt": f"What is {n}?", "truth": n, "verifier": "number"} for n in range(4)]
    path = tmp_path / "sums.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    task = open_domain(f"jsonl:{path}").task("eval", 1, 0)
    right = burnish("verify", task.domain, task.id, "--reply", "-", stdin=task.gold)
    assert right.stdout.splitlines()[-1].startswith("second opinion agrees; ")
    assert compare(Verdict.scored(1), Verdict.scored(0, evidence="no")) == (
        "second opinion disagrees: scored, score 0.0; no"
    )


def test_a_reply_may_come_from_standard_input(burnish):
    task = open_domain("documents").task("eval", 3, 1)
    good = burnish("verify", "documents", task.id, "--reply", "-", stdin=task.gold)
    assert good.stdout.startswith(f"{task.id}: scored, score 1\n")
    wrong = burnish("verify", "documents", task.id, "--reply", "-", stdin=json.dumps({"unheard": 1}))
    assert wrong.stdout.startswith(f"{task.id}: scored, score 0")


@pytest.mark.parametrize(
    ("task_id", "expected"),
    [
        ("outside.right/eval/1", "expected outside.right/SPLIT/SEED/INDEX"),
        ("other/eval/1/0", "expected outside.right/SPLIT/SEED/INDEX"),
        ("outside.right/eval/1/x", "expected outside.right/SPLIT/SEED/INDEX"),
        ("outside.right/test/1/0", "no split 'test'"),
        ("outside.right/eval/1/2", "index 2 is past the end; eval has 2 tasks"),
    ],
)
def test_a_task_id_that_names_no_task_is_refused(refusal, outside, task_id, expected):
    assert expected in refusal("verify", outside("right"), task_id, "--reply", "reply.txt")


def test_a_reply_that_cannot_be_read_is_named(refusal, outside):
    message = refusal("verify", outside("right"), "outside.right/eval/1/0", "--reply", "none.txt")
    assert "cannot read the reply 'none.txt'" in message


def test_a_broken_line_of_own_tasks_is_named_with_its_number(refusal, tmp_path):
    (tmp_path / "own.jsonl").write_text('{"prompt": "2+2?", "truth": "4"}\n{"prompt": "3+\n')
    message = refusal("tasks", "sample", f"jsonl:{tmp_path / 'own.jsonl'}", "--set", "verifier=number")
    assert "own.jsonl:2: " in message


def test_isolation_is_the_name_of_a_backend(refusal, outside):
    assert "no isolation 'off'; there are: bubblewrap, docker, e2b, namespaces, none, remote, swerex" in refusal(
        "tasks", "check", outside("right"), "--isolation", "off"
    )


def test_evidence_gives_a_terminal_no_orders(burnish, tmp_path):
    (tmp_path / "reply").write_bytes(b'{"total": "\x1b]0;owned\x07\xe2\x80\xae"}')
    result = burnish("verify", "documents", "documents/eval/1/0", "--reply", "reply")
    assert result.exit_code == 0, result.stderr
    assert not {"\x1b", "\x07", "\u202e"} & set(result.stdout)


@pytest.mark.parametrize("number", ["²", "٣", "9" * 5000])
def test_a_task_id_with_a_strange_number_is_refused(refusal, number, tmp_path):
    (tmp_path / "reply").write_text("")
    assert "expected arithmetic/SPLIT/SEED/INDEX" in refusal(
        "verify", "arithmetic", f"arithmetic/eval/1/{number}", "--reply", "reply"
    )


def test_a_check_as_json_has_every_claim_and_what_went_against_it(burnish, outside):
    proofs = json.loads(burnish("tasks", "check", outside("cheap_too", share=0.9), "--json").stdout)
    assert {proof["claim"]: len(proof["against"]) for proof in proofs if proof["against"]} == {"gold scores 1": 2}
    assert {"hostile replies score nothing", "the verifier needs no network"} <= {proof["claim"] for proof in proofs}
