"""Plans that are carried out: completion, the share of useful steps, and what is no plan."""

import asyncio

import pytest

from burnish.domains import open_domain
from burnish.domains.errands import World, begun, plan, steps_left


def judged(reply, truth=None, **options):
    domain = open_domain("errands", options)
    task = domain.task("eval", 1, 0)
    if truth:
        task = type(task)(**{name: getattr(task, name) for name in task.__dataclass_fields__} | {"truth": truth})
    return asyncio.run(domain.verify(task, reply, None))


LAMP = {"room": "attic", "places": {"lamp": "cellar"}, "goal": {"lamp": "porch"}}


@pytest.mark.parametrize(
    ("reply", "score", "step_success"),
    [
        ("go cellar\ntake lamp\ngo porch\ndrop lamp", 1, 1),
        ("1. go to the cellar\n2. take the lamp\n3. go porch\n4. drop lamp.", 1, 1),
        ("go garden\ngo cellar\ntake lamp\ngo porch\ndrop lamp", 1, 0.8),  # roundabout
        ("go cellar\ntake lamp\ngo porch", 0, 1),  # never put down
        ("take lamp\ngo cellar\ntake lamp\ngo porch\ndrop lamp", 0, 0.8),  # the first step cannot be done
        ("go cellar\ntake lamp\ngo garden\ndrop lamp", 0, 0.5),  # the wrong room
        ("I would carry it.", 0, 0),
    ],
)
def test_a_plan_counts_by_its_end_and_its_steps_by_what_they_bring(reply, score, step_success):
    verdict = judged(reply, LAMP)
    assert (verdict.score, verdict.parts["step_success"]) == (score, pytest.approx(step_success))


def test_the_steps_left_are_the_fewest():
    world = World(room="attic", places={"lamp": "cellar", "map": "porch"})
    assert steps_left(world, {"lamp": "porch"}) == 4
    assert steps_left(world, {"lamp": "porch", "map": "garden"}) == 7  # from the porch on, one walk less
    assert steps_left(world, {"lamp": "cellar"}) == 0


@pytest.mark.parametrize("num", [1, 3])
def test_the_known_plan_takes_no_useless_step_for_one_errand_and_always_ends_right(num):
    domain = open_domain("errands", {"num_errands": num, "num_things": 5})
    for index in range(20):
        task = domain.task("eval", 1, index)
        verdict = asyncio.run(domain.verify(task, task.gold, None))
        assert verdict.score == 1
        assert num > 1 or verdict.parts["step_success"] == 1
    assert plan(World(room="porch", places={"lamp": "porch"}), {"lamp": "attic"}) == [
        "take lamp",
        "go attic",
        "drop lamp",
    ]


@pytest.mark.parametrize("num_begun", [1, 2, 3])
@pytest.mark.parametrize("num", [1, 2])
def test_an_errand_that_was_begun_goes_on_from_where_it_stands(num_begun, num):
    domain = open_domain("errands", {"num_errands": num, "num_things": 3, "num_begun": num_begun})
    for index in range(10):
        task = domain.task("eval", 1, index)
        assert asyncio.run(domain.verify(task, task.gold, None)).score == 1
        assert ("You carry the" in task.messages[0].content) == bool(task.truth.get("carried"))
        empty = asyncio.run(domain.verify(task, "", None))
        assert empty.score == 0


def test_what_is_carried_goes_home_first():
    goal = {"map": "garden", "lamp": "porch"}
    world = World(room="cellar", places={"map": "attic", "lamp": ""}, carried="lamp")
    assert plan(world, goal) == ["go porch", "drop lamp", "go attic", "take map", "go garden", "drop map"]
    assert begun(world, goal, 2) == World(room="porch", places={"map": "attic", "lamp": "porch"})
