"""Replies that know nothing: what they earn, and when that makes tasks weak."""

import asyncio

from burnish.core.types import Message, Task, Verdict
from burnish.evals.weakness import baselines, weak


def task(number, gold, prompt="Is it so?"):
    return Task(
        id=f"t/eval/1/{number}", domain="t", messages=(Message(role="user", content=f"{prompt} {number}"),),
        truth={"answer": gold}, gold=gold,
    )  # fmt: skip


async def exact(task, reply):
    return Verdict.scored(float(reply == task.truth["answer"]))


def earned(tasks, ask=exact):
    return {each.name: each.earned.mean for each in asyncio.run(baselines(tasks, ask))}


def test_a_constant_earns_the_share_of_tasks_that_it_answers():
    found = earned([task(n, "yes" if n % 4 else "no") for n in range(20)])
    assert (found["the constant 'yes'"], found["the constant 'no'"], found["the empty reply"]) == (0.75, 0.25, 0)


def test_the_commonest_answer_is_tried_and_one_that_occurs_once_is_not():
    names = earned([task(n, "blue" if n < 3 else str(n * 77)) for n in range(20)])
    assert names["the constant 'blue'"] == 0.15
    assert "the constant '308'" not in names


def test_the_prompt_said_back_is_tried_whole_and_by_its_end():
    async def echoes(task, reply):
        return Verdict.scored(float(reply == task.messages[-1].content))

    found = earned([task(n, "x") for n in range(4)], echoes)
    assert (found["the prompt said back"], found["the prompt's last word"]) == (1, 0)


def test_tasks_are_weak_where_a_guess_is_surely_above_chance():
    coin = asyncio.run(baselines([task(n, "yes" if n % 2 else "no") for n in range(40)], exact))
    assert [each.name for each in weak(coin, 0.1)] == ["the constant 'yes'", "the constant 'no'"]
    assert weak(coin, 0.5) == []
    few = asyncio.run(baselines([task(0, "yes"), *(task(n, str(n * 77)) for n in range(1, 5))], exact))
    assert few[0].earned.mean == 0.2
    assert weak(few, 0.1) == []  # one of five may be chance


def test_what_is_not_scored_earns_nothing():
    async def broken(task, reply):
        return Verdict.unscorable("no")

    assert set(earned([task(0, "x")], broken).values()) == {0}
