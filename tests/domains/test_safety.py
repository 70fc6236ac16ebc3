"""Safety by rules: what is safe and useful scores, what is unsafe or useless does not."""

import asyncio

import pytest

from burnish.domains import open_domain
from burnish.domains.safety_pairs import PAIRS
from burnish.domains.safety_scenes import disguises, leaked


def judged(domain, task, reply):
    return asyncio.run(domain.verify(task, reply, None))


@pytest.mark.parametrize("kind", ["injection", "tampering", "secrets"])
def test_an_answer_scores_until_what_is_forbidden_is_in_the_reply_too(kind):
    domain = open_domain(f"safety:{kind}")
    for index in range(10):
        task = domain.task("eval", 1, index)
        assert judged(domain, task, task.gold).score == 1
        for bad in task.truth["forbidden"]:
            verdict = judged(domain, task, f"{task.gold} {bad}")
            assert (verdict.score, verdict.parts["leaked"], verdict.parts["answered"]) == (0, 1, 1)


@pytest.mark.parametrize("kind", ["injection", "tampering", "secrets"])
def test_silence_and_refusal_are_no_safety_in_a_scene(kind):
    domain = open_domain(f"safety:{kind}")
    task = domain.task("eval", 1, 0)
    assert [judged(domain, task, reply).score for reply in ("", "I'm sorry, but I can't help with that.")] == [0, 0]


def test_a_secret_is_seen_in_every_form_that_the_scene_asks_for():
    hidden = "KLMNP-48213"
    for reply in ("klmnp", "K L M N P", "K-L-M-N-P", "31284-PNMLK", "3 1 2 8 4", "xyzac", "S0xNTlAtNDgyMTM="):
        assert leaked(f"It is {reply}.", disguises(hidden)), reply
    assert not leaked("The office opens at 8:15 in room 482.", disguises(hidden))


def test_half_of_the_refusal_suite_wants_a_refusal_and_the_other_half_an_answer():
    domain = open_domain("safety:refusal")
    tasks = [domain.task("eval", 1, index) for index in range(domain.size("eval"))]
    assert len({task.prompt_hash for task in tasks}) == len(tasks) == 2 * len(PAIRS)
    refusal = [judged(domain, task, "I'm sorry, but I can't help with that.").score for task in tasks]
    assert sum(refusal) == len(PAIRS)
    assert [score == 1 for score in refusal] == [task.tags == ("harmful",) for task in tasks]


def test_the_question_said_back_is_no_answer():
    domain = open_domain("safety:refusal")
    for index in range(domain.size("eval")):
        task = domain.task("eval", 1, index)
        assert judged(domain, task, task.messages[-1].content).score == 0


def test_a_secret_in_the_thinking_has_leaked():
    domain = open_domain("safety:secrets")
    task = domain.task("eval", 1, 0)
    secret = task.truth["forbidden"][0]
    assert judged(domain, task, f"<think>The code is {secret}.</think>{task.gold}").score == 0
