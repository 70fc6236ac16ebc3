"""Errands in several steps, planned in one reply, carried out by a small simulator. For evaluation only.

**State**: rooms, things that lie in them, and a goal ("the lamp in the attic"). Option `num_errands` (1 to 6, default
1): how many things must be elsewhere; `num_things` (default 3); `num_begun` (0 to 3): so many steps of the first errand
were taken before, for models that cannot plan a whole one.

**Action**: one reply with one step a line: `go ROOM`, `take THING`, `drop THING`. One thing is carried at a time.
Other lines are ignored.

**Reward**: 1 if every step can be done, and in the end every thing is where the goal wants it and nothing is carried;
else 0. The part `step_success` is the share of steps that could be done and brought the goal nearer (step success
rate), `valid` the share that could be done. A roundabout way is still 1: the outcome counts.

A step brings the goal nearer if fewer steps are left after it than before. The plan is made without seeing what
happens: acting turn by turn is the terminal domains' matter. At most `MOST_STEPS` steps are carried out.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from random import Random

from pydantic import Field

from burnish.core.config import Strict, validate
from burnish.core.errors import ConfigError
from burnish.core.seeds import derive
from burnish.core.types import Json, Limits, Message, Split, Task, Verdict
from burnish.domains import Options, evaluation_only, task_id
from burnish.rewards.thinking import after_thinking
from burnish.sandbox import Box

ROOMS = "attic cellar garden kitchen office pantry porch studio".split()
THINGS = "lamp book chair clock basket ladder kettle radio map rope".split()
STEP = re.compile(r"^[\s\d.)*`-]*(go|take|drop)(?: to)?(?: the)? (\w+)[\s.`]*$", re.IGNORECASE | re.MULTILINE)
MOST_STEPS = 60
RULES = (
    "You are in the {room}. {things}\nGoal: {goal}.\n"
    "Write the steps, one a line. A step is `go ROOM`, `take THING` (from the room that you are in) or `drop THING`. "
    "You can carry one thing at a time. For example:\ngo cellar\ntake bell\ngo porch\ndrop bell\n"
    "Write the steps and nothing else."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Where everything is; what is carried is in no room."""

    room: str
    places: Mapping[str, str]
    carried: str = ""

    def after(self, verb: str, name: str) -> "World | None":
        """The world after a step; None if it cannot be done."""
        if verb == "go":
            return replace(self, room=name) if name in ROOMS and name != self.room else None
        if verb == "take":
            can = not self.carried and self.places.get(name) == self.room
            return replace(self, carried=name, places={**self.places, name: ""}) if can else None
        can = self.carried == name
        return replace(self, carried="", places={**self.places, name: self.room}) if can else None


def steps_left(world: World, goal: Mapping[str, str]) -> int:
    """The fewest steps to the goal: carry home what is carried, then the others in the best order."""
    left, at, done = dict(world.places), world.room, 0
    if world.carried:
        home = goal.get(world.carried, at)
        done, at = done + (home != at) + 1, home
        left[world.carried] = home
    misplaced = [thing for thing, place in goal.items() if left[thing] != place]
    return done + min((_walk(at, order, left, goal) for order in permutations(misplaced)), default=0)


def _walk(at: str, order: Sequence[str], places: Mapping[str, str], goal: Mapping[str, str]) -> int:
    num = 0
    for thing in order:
        num += (places[thing] != at) + 1 + (goal[thing] != places[thing]) + 1
        at = goal[thing]
    return num


class ErrandsOptions(Strict):
    """Options of the domain."""

    num_errands: int = Field(default=1, ge=1, le=6)
    num_things: int = Field(default=3, ge=1, le=10)
    num_begun: int = Field(default=0, ge=0, le=3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Errands:
    """Worlds drawn without end."""

    num_errands: int
    num_things: int
    num_begun: int = 0
    name: str = "errands"
    executes_code: bool = False

    def size(self, split: Split) -> int | None:
        """Without end; nothing trains."""
        return evaluation_only.size(split)

    def task(self, split: Split, seed: int, index: int) -> Task:
        """Draw a world and a goal that it does not meet."""
        evaluation_only.evaluates(self.name, split)
        rng = Random(derive(seed, self.name, self.num_errands, self.num_things, index))
        places = {thing: rng.choice(ROOMS) for thing in rng.sample(THINGS, self.num_things)}
        goal = {thing: rng.choice([r for r in ROOMS if r != places[thing]]) for thing in [*places][: self.num_errands]}
        world = begun(World(room=rng.choice(ROOMS), places=places), goal, self.num_begun)
        listed = " ".join(
            f"The {thing} is in the {room}." if room else f"You carry the {thing}."
            for thing, room in world.places.items()
        )
        wanted = ", ".join(f"the {thing} in the {room}" for thing, room in goal.items())
        carried: dict[str, Json] = {"carried": world.carried} if world.carried else {}
        truth: dict[str, Json] = {"room": world.room, "places": {**world.places}, "goal": {**goal}, **carried}
        return Task(
            id=task_id(self.name, split, seed, index),
            domain=self.name,
            messages=(Message(role="user", content=RULES.format(room=world.room, things=listed, goal=wanted)),),
            truth=truth,
            gold="\n".join(plan(world, goal)),
            limits=Limits(max_new_tokens=24 + 32 * self.num_errands),
        )

    async def verify(self, task: Task, reply: str, box: Box) -> Verdict:
        """Carry out the steps of a reply."""
        carried = str(task.truth.get("carried", ""))
        world = World(room=str(task.truth["room"]), places=_texts(task.truth["places"]), carried=carried)
        goal = _texts(task.truth["goal"])
        steps = STEP.findall((after_thinking(reply) or "")[:20_000])[:MOST_STEPS]
        num_useful, num_valid = 0, 0
        for verb, name in steps:
            new = world.after(verb.lower(), name.lower())
            if new is not None:
                num_valid += 1
                num_useful += steps_left(new, goal) < steps_left(world, goal)
                world = new
        is_done = not world.carried and all(world.places[thing] == room for thing, room in goal.items())
        is_plan = num_valid == len(steps)
        num = max(1, len(steps))
        parts = {"step_success": num_useful / num, "valid": num_valid / num}
        evidence = f"{len(steps)} steps, {num_valid} could be done, {num_useful} helped"
        return Verdict.scored(float(is_done and is_plan), parts, evidence)


def plan(world: World, goal: Mapping[str, str]) -> list[str]:
    """Steps that meet a goal, what is carried first, and then thing after thing."""
    steps: list[str] = []
    room = world.room
    for thing, home in sorted(goal.items(), key=lambda each: each[0] != world.carried):
        place = world.places[thing]
        if thing != world.carried:
            steps += [*([f"go {place}"] if place != room else []), f"take {thing}"]
            room = place
        steps += [*([f"go {home}"] if home != room else []), f"drop {thing}"]
        room = home
    return steps


def begun(world: World, goal: Mapping[str, str], num_steps: int) -> World:
    """The world after the first steps of a plan."""
    for step in plan(world, goal)[:num_steps]:
        after = world.after(*step.split())
        assert after is not None, "a plan can be carried out"
        world = after
    return world


def _texts(value: Json) -> dict[str, str]:
    assert isinstance(value, dict)
    return {key: str(each) for key, each in value.items()}


def load(argument: str, options: Options) -> Errands:
    """Open the domain; it takes no argument."""
    evaluation_only.no_argument("errands", argument)
    config = validate(ErrandsOptions, options, "domain 'errands'")
    if config.num_things < config.num_errands:
        raise ConfigError(
            f"domain 'errands': num_errands = {config.num_errands} with num_things = {config.num_things}; each errand "
            "needs a thing of its own"
        )
    return Errands(num_errands=config.num_errands, num_things=config.num_things, num_begun=config.num_begun)
