"""The verdicts of `bench.time_to_reward` for a trainer that is not ours: the domain's own, over pipes.

Prints the messages of all draws of stage `rl` as one line; then reads lines with draws and replies to them, and prints
their scores, until there are no more.
"""

import asyncio
import json
import sys
from collections.abc import Sequence

from bench.contest.reward_task import DOMAIN, NUM_EVAL, OPTIONS
from bench.contest.stopwatch import shape_of_work
from burnish.core.recipe import TaskEntry
from burnish.core.seeds import derive
from burnish.core.types import Task
from burnish.domains import open_domain
from burnish.rollout.mixture import Mixture, Source, held_out
from burnish.sandbox import open_box


def tasks_of(seed: int, num_draws: int) -> list[Task]:
    """What the first stage of a recipe with this seed draws."""
    entry = TaskEntry(domain=DOMAIN, num_eval=NUM_EVAL, options=dict(OPTIONS))
    sources = [Source(entry=entry, domain=open_domain(entry.domain, entry.options))]
    exclude = frozenset(draw.task.prompt_hash for draw in held_out(sources, derive(seed, "eval")))
    mixture = Mixture(sources, seed=derive(seed, "train", 0), exclude=exclude)
    return [mixture.draw(number).task for number in range(num_draws)]


async def judge(tasks: Sequence[Task]) -> None:
    """Answer until the trainer hangs up."""
    domain = open_domain(DOMAIN, dict(OPTIONS))
    async with open_box(num_workers=2) as box:
        for line in sys.stdin:
            asked = json.loads(line)
            verdicts = await asyncio.gather(
                *(
                    domain.verify(tasks[draw], reply, box)
                    for draw, reply in zip(asked["draws"], asked["replies"], strict=True)
                )
            )
            print(json.dumps([verdict.score for verdict in verdicts]), flush=True)


if __name__ == "__main__":
    drawn = tasks_of(shape_of_work()["seed"], shape_of_work()["draws"])
    print(json.dumps([[{"role": m.role, "content": m.content} for m in task.messages] for task in drawn]), flush=True)
    asyncio.run(judge(drawn))
