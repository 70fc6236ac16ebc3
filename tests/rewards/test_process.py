"""Habits of work are seen in order and place, are worth little without the outcome, and cannot be farmed."""

import itertools

import pytest

from burnish.rewards.process import FREE, GATED, MOST, Event, Fault, Place, judge

FAULT = Fault(places=(Place(path="a.py", first_line=10, last_line=20),), failing=frozenset({"t1", "t2"}), num_lines=1)
RUN = Event(step=0, kind="test", failing=frozenset({"t1", "t2"}))
LOOK = Event(step=1, kind="look", path="a.py", first_line=1, last_line=40)
EDIT = Event(step=2, kind="edit", path="a.py", first_line=12, last_line=12)
CHECK = Event(step=3, kind="test", failing=frozenset())
SUBMIT = Event(step=4, kind="submit")
GOOD = [RUN, LOOK, EDIT, CHECK, SUBMIT]


def at(step: int, event: Event, **changes: object) -> Event:
    values = {name: getattr(event, name) for name in Event.__dataclass_fields__}
    return Event(**{**values, "step": step, **changes})


def test_a_whole_good_episode_worked_by_hand() -> None:
    process = judge(GOOD, FAULT, 1.0)
    assert process.parts == {
        "reproduced": 1.0, "verified": 1.0, "located": 1.0, "edited_in_place": 1.0, "left_nothing_worse": 1.0,
        "changed_little": 1.0, "outcome": 1.0, "penalty": 0.0,
    }  # fmt: skip
    assert process.score == pytest.approx((1 + 0.4 + 0.1) / 1.5)
    assert process.earned == pytest.approx({0: 0.15 / 1.5, 1: 0.10 / 1.5, 2: 0.05 / 1.5, 3: 0.10 / 1.5})


@pytest.mark.parametrize(
    ("events", "part", "value"),
    [
        ([EDIT, at(3, RUN)], "reproduced", 0.0),  # after the edit: that is no reproduction
        ([at(0, RUN, failing=frozenset({"other"}))], "reproduced", 0.0),
        ([EDIT, at(3, LOOK)], "located", 0.0),
        ([at(0, LOOK, path="b.py"), at(1, LOOK)], "located", 0.5),
        ([at(0, LOOK, first_line=21, last_line=40)], "located", 0.0),  # the file, but another function
        ([at(0, LOOK, kind="search", first_line=0, last_line=0)], "located", 1.0),
        ([EDIT, at(3, EDIT, path="b.py")], "edited_in_place", 0.5),
        ([at(2, EDIT, last_line=15)], "changed_little", 0.25),
        ([], "changed_little", 0.0),
        ([at(2, EDIT, first_line=0, last_line=0)], "changed_little", 0.0),  # the whole file
        ([CHECK, at(4, EDIT)], "verified", 0.0),
        ([EDIT, CHECK, at(4, EDIT, kind="undo")], "verified", 0.0),
    ],
)
def test_what_each_rule_sees(events: list[Event], part: str, value: float) -> None:
    assert judge(events, FAULT, 1.0).parts[part] == pytest.approx(value)


def test_an_edit_that_made_it_worse_counts_as_undone_only_if_it_was() -> None:
    worse = at(3, RUN, failing=frozenset({"t1", "t2", "t3"}))
    undone = [RUN, EDIT, worse, at(4, EDIT, kind="undo"), at(5, RUN)]
    assert judge(undone, FAULT, 0.0).parts["left_nothing_worse"] == 1.0
    assert judge([RUN, EDIT, worse, at(4, EDIT), at(5, RUN)], FAULT, 0.0).parts["left_nothing_worse"] == 0.0
    assert judge([*undone, at(6, EDIT), at(7, worse)], FAULT, 0.0).parts["left_nothing_worse"] == 0.5


def test_every_habit_without_the_outcome_is_worth_less_than_the_outcome_without_any() -> None:
    """A farmer that shows each habit, in every order and many times over, earns no tenth of what a solver does."""
    solver = judge([EDIT, SUBMIT], FAULT, 1.0)
    deeds = [RUN, LOOK, EDIT, at(0, EDIT, kind="undo"), CHECK]
    farmed = max(
        judge([at(step, deed) for step, deed in enumerate(order * 3)], FAULT, 0.0).score
        for order in itertools.permutations(deeds)
    )
    assert farmed == pytest.approx(sum(FREE.values()) / MOST)
    assert farmed < 0.1 * solver.score


def test_the_score_grows_with_the_outcome_and_stays_between_0_and_1() -> None:
    scores = [judge(GOOD, FAULT, outcome / 10).score for outcome in range(11)]
    assert scores == sorted(scores)
    assert scores[0] > 0 and scores[-1] <= 1
    assert judge([at(0, EDIT, is_forbidden=True)], FAULT, 0.0).score == 0.0


def test_what_is_forbidden_costs_half_a_solution_however_often() -> None:
    once = judge([*GOOD, at(5, SUBMIT, is_forbidden=True)], FAULT, 1.0)
    twice = judge([*GOOD, *(at(5 + n, SUBMIT, is_forbidden=True) for n in range(2))], FAULT, 1.0)
    assert once.score == twice.score == pytest.approx(judge(GOOD, FAULT, 1.0).score - 0.5 / MOST)


def test_calls_that_cannot_be_read_cost_a_little_up_to_a_limit() -> None:
    scores = [
        judge([*GOOD, *(at(5 + n, SUBMIT, kind="malformed") for n in range(num))], FAULT, 1.0).score
        for num in (0, 1, 5, 50)
    ]
    assert [round((scores[0] - score) * MOST, 6) for score in scores] == [0.0, 0.02, 0.1, 0.1]


def test_what_steps_lose_is_what_the_score_loses() -> None:
    bad = [at(5 + n, SUBMIT, kind="malformed", is_forbidden=n in (2, 7)) for n in range(9)]
    lost = {step: value for step, value in judge([*GOOD, *bad], FAULT, 1.0).earned.items() if value < 0}
    assert sum(lost.values()) * MOST == pytest.approx(-0.6)
    assert lost[7] * MOST == pytest.approx(-0.52)


@pytest.mark.parametrize("outcome", [0.0, 0.25, 1.0])
@pytest.mark.parametrize("num_bad", [0, 1, 9])
def test_after_all_steps_what_is_still_to_come_is_never_more_than_the_outcome_and_habits_without_a_step(
    outcome: float, num_bad: int
) -> None:
    bad = [at(5 + n, SUBMIT, kind="malformed", is_forbidden=n == 2) for n in range(num_bad)]
    process = judge([RUN, *bad], FAULT, outcome)
    without = judge([RUN], FAULT, outcome)
    still_to_come = process.score - sum(process.earned.values())
    assert still_to_come == pytest.approx(without.score - sum(without.earned.values()))


def test_the_weights_are_what_the_page_says() -> None:
    assert sum(weight for _, weight in GATED.values()) == pytest.approx(0.4)
    assert pytest.approx(1.5) == MOST
