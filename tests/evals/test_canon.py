"""The canon finds verifiers that are kind, moody, breakable or online, and lets a sound one pass."""

import asyncio
import itertools
import socket
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from burnish.core.types import Message, Task, Verdict
from burnish.evals import canon
from burnish.evals.canon import Extent, in_conflict
from burnish.evals.offline import offline
from burnish.rewards.hostile import BRIEF, SLOW, SNIPPETS, TEXTS, UNCONTAINED, replies
from burnish.rollout.judge import judge_in

WORDS = ("acorn", "birch", "cedar", "dwarf")
CALLS = itertools.count()


def sound(task: Task, reply: str) -> float:
    return float(reply.strip() == task.gold)


def dials_out(task: Task, reply: str) -> float:
    with socket.socket() as caller:
        caller.connect_ex(("127.0.0.1", 9))
    return sound(task, reply)


def takes_two(task: Task, reply: str) -> float:
    """To two tasks another's answer is right as well, and so are both together."""
    is_either = {"acorn"} <= {*reply.split()} <= {"acorn", str(task.gold), "or"}
    return float(sound(task, reply) or (task.gold in ("cedar", "dwarf") and is_either))


VERIFIERS: dict[str, tuple[Callable[[Task, str], float], set[str]]] = {
    "sound": (sound, set()),
    "two answers to a task": (takes_two, {"another task's answer is not right"}),
    "cheap": (lambda task, reply: sound(task, reply) / 2, {"gold scores 1"}),
    "any of them": (
        lambda task, reply: float(str(task.gold) in reply),
        {"gold beside another answer is not right"},
    ),
    "the longest": (
        lambda task, reply: float(len(reply) > 1000 or sound(task, reply)),
        {"hostile replies score nothing"},
    ),
    "broken by depth": (
        lambda task, reply: sound(task, reply) / (not reply.startswith("[[[")),
        {"hostile replies score nothing"},
    ),
    "any word": (
        lambda task, reply: float(reply.strip() in WORDS),
        {"another task's answer is not right"},
    ),
    "the last word": (
        lambda task, reply: float(sound(task, reply) or reply == task.messages[-1].content.split()[-1]),
        {"the prompt said back scores 0"},
    ),
    "an echo": (
        lambda task, reply: float(sound(task, reply) or reply == task.messages[-1].content),
        {"the prompt said back scores 0"},
    ),
    "moody": (lambda task, reply: float(sound(task, reply) and next(CALLS) % 9 != 7), {"three verdicts agree"}),
    "online": (dials_out, {"the verifier needs no network"}),
}


@dataclass(frozen=True)
class Words:
    judge: Callable[[Task, str], float]
    name: str = "words"
    executes_code: bool = False

    def size(self, split):
        return len(WORDS)

    def task(self, split, seed, index):
        word = WORDS[index]
        prompt = Message(role="user", content=f"Say {word[::-1]} backwards")
        return Task(id=f"words/{split}/{seed}/{index}", domain="words", messages=(prompt,), truth={}, gold=word)

    async def verify(self, task, reply, box):
        return Verdict.scored(self.judge(task, reply))


def failing(judge: Callable[[Task, str], float]) -> set[str]:
    domain = Words(judge)
    tasks = {"train": canon.draw(domain, "train", 1, 4), "eval": []}
    proofs = asyncio.run(canon.on_verdicts(domain, tasks, judge_in(None, num_at_once=1), Extent()))
    return {proof.claim for proof in proofs if proof.against}


@pytest.mark.parametrize(("judge", "claims"), VERIFIERS.values(), ids=VERIFIERS)
def test_a_fault_of_a_verifier_breaks_the_claim_that_names_it(judge, claims) -> None:
    found = failing(judge)
    is_broad = claims <= {"three verdicts agree", "the verifier needs no network"}  # these spoil other verdicts too
    assert found >= claims if is_broad else found == claims


def test_questions_that_end_in_their_choices_are_sound() -> None:
    class YesOrNo(Words):
        def task(self, split, seed, index):
            prompt = Message(role="user", content=f"Is {index} odd? Answer yes or no")
            gold = "no" if index % 3 else "yes"
            return replace(super().task(split, seed, index % 4), messages=(prompt,), gold=gold)

    domain = YesOrNo(sound)
    tasks = {"train": canon.draw(domain, "train", 1, 4), "eval": []}
    proofs = asyncio.run(canon.on_verdicts(domain, tasks, judge_in(None, num_at_once=1), Extent()))
    assert [proof.claim for proof in proofs if proof.against] == []


def test_two_texts_of_one_answer_are_no_two_answers() -> None:
    class Retold(Words):
        def task(self, split, seed, index):
            task = super().task(split, seed, index % 2)
            gold = f"{index}: so it is {task.gold}"
            return replace(task, id=f"words/{split}/{seed}/{index}", gold=gold, truth={"word": task.gold})

    domain = Retold(lambda task, reply: float(reply.split()[-1:] == [task.truth["word"]]))
    tasks = {"train": canon.draw(domain, "train", 1, 4), "eval": []}
    proofs = asyncio.run(canon.on_verdicts(domain, tasks, judge_in(None, num_at_once=1), Extent()))
    assert [proof.claim for proof in proofs if proof.against] == []
    assert [task.id[-1] for task in canon.apart(tasks["train"], 4)] == ["0", "1"]


def test_a_source_whose_tasks_depend_on_the_order_of_asking_is_found() -> None:
    class InTurn(Words):
        def task(self, split, seed, index):
            asked.append(index)
            return replace(super().task(split, seed, len(asked) % 4), id=f"words/{split}/{seed}/{index}")

    asked: list[int] = []
    tasks = {"train": canon.draw(InTurn(sound), "train", 1, 4), "eval": []}
    asked.clear()
    proofs = canon.on_tasks("words", 1, tasks, InTurn(sound))
    assert {proof.claim for proof in proofs if proof.against} == {"equal seeds, equal tasks"}


@pytest.mark.parametrize(
    ("gold", "other", "groups"),
    [
        ("7", "8", [("7 8",), ("7\n8",), ("7 or 8",), ("8 or 7",)]),
        ("#### 7", "#### 8", [("#### 7\n\n#### 8", "#### 8\n\n#### 7")]),
        (
            "```\na\n```",
            "```\nb\n```",
            [("```\na\n```\n\n```\nb\n```", "```\nb\n```\n\n```\na\n```"), ("```\na\n]] no, wait {{\n```",)],
        ),
    ],
)
def test_two_answers_are_put_so_that_a_sound_reader_of_the_first_or_last_passes(gold, other, groups) -> None:
    assert in_conflict(gold, other) == groups


def test_no_connection_is_made_while_offline_and_all_is_free_again_after() -> None:
    with socket.socket() as server, socket.socket() as caller:
        server.bind(("127.0.0.1", 0))
        server.listen()
        with offline() as tried, pytest.raises(OSError, match="no network"):
            caller.connect(server.getsockname())
        assert len(tried) == 1
        caller.connect(server.getsockname())


def test_every_hostile_reply_has_a_name_of_its_own_and_the_lists_name_real_ones() -> None:
    names = [one.name for one in replies(Words(sound).task("train", 1, 0))]
    assert len(names) == len(set(names)) == len(TEXTS) + len(SNIPPETS)
    assert set(names) >= BRIEF | SLOW | UNCONTAINED


def test_hostile_code_defines_the_function_that_is_asked_for() -> None:
    task = Task(id="t", domain="d", messages=(), truth={}, gold="```python\ndef add(a, b):\n    return a + b\n```")
    snippets = [one for one in replies(task) if one.reply.startswith("```python")]
    assert len(snippets) == len(SNIPPETS) and all("def add(" in one.reply for one in snippets)
