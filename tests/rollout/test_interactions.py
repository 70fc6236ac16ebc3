"""Interactions: what is counted, what an attempt may take, and budgets that are kept."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burnish.core.recipe import EpisodesConfig, TaskEntry
from burnish.core.types import Step
from burnish.domains import open_domain
from burnish.rollout.interactions import Budget, most_of_one, num_of
from burnish.rollout.mixture import Mixture, Source
from tests.stages.stored import trajectory

REPLY = trajectory("1+1=", "2", 1.0)
EPISODE = replace(REPLY, steps=(Step(first=1, end=2, reply="2"),) * 3)


def test_a_turn_is_an_interaction_and_a_single_reply_is_one() -> None:
    assert num_of([REPLY, EPISODE, replace(REPLY, verdict=None)]) == 5


@pytest.mark.parametrize(
    ("domain", "limits", "most"),
    [
        ("arithmetic", EpisodesConfig(at_limit={"steps": "ask"}), 1),
        ("tests.rollout.guessing_domain", EpisodesConfig(), 4),  # as its tasks say
        ("tests.rollout.guessing_domain", EpisodesConfig(max_steps=5), 5),
        ("tests.rollout.guessing_domain", EpisodesConfig(max_steps=5, at_limit={"tokens": "ask"}), 6),
    ],
)
def test_an_attempt_takes_at_most_its_turns_and_the_last_that_is_asked_for(
    domain: str, limits: EpisodesConfig, most: int
) -> None:
    entry = TaskEntry(domain=domain)
    mixture = Mixture([Source(entry=entry, domain=open_domain(domain))], seed=1, exclude=frozenset())
    assert most_of_one(mixture.draw(0), limits) == most


@pytest.mark.parametrize(("most", "fit"), [(None, 3), (9, 3), (8, 2), (5, 2), (4, 1), (1, 0)])
def test_as_many_may_begin_as_fit_if_each_takes_the_most_that_it_can(most: int | None, fit: int) -> None:
    assert Budget(most=most).fitting([2, 3, 4]) == fit


@given(most=st.integers(0, 40), costs=st.lists(st.lists(st.integers(1, 9), min_size=1), max_size=9), data=st.data())
def test_no_budget_is_exceeded_and_none_is_left_that_would_hold_the_next(
    most: int, costs: Sequence[Sequence[int]], data: st.DataObject
) -> None:
    budget = Budget(most=most)
    for wave in costs:
        num = budget.fitting(wave)
        assert num == len(wave) or budget.spent + sum(wave[: num + 1]) > most
        for cost in wave[:num]:
            taken = data.draw(st.integers(1, cost))
            budget.spend([replace(REPLY, steps=EPISODE.steps[:1] * taken)])
    assert budget.spent <= most
