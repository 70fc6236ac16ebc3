"""105 domains of reasoning-gym and three of ours in one stage, on a tiny model; what is known of each survives its end.

The tasks' own check (`task_check`), which comes before a run, is left out: it is paid once a host, and takes minutes.
"""

from pathlib import Path

import pytest
from rich.console import Console

from burnish.core.config import validate
from burnish.core.ledger import Ledger
from burnish.core.recipe import Recipe, read_recipe
from burnish.sandbox import missing
from burnish.stages import rl
from burnish.stages.curriculum import final_state, plan_of
from burnish.stages.rl_config import Config
from burnish.stages.session import open_session

RECIPE = Path(__file__).parents[2] / "recipes" / "hundred_domains.toml"
NUM_STEPS = 4


def short(num_steps: int) -> tuple[Recipe, Config]:
    recipe = read_recipe(RECIPE, ["threads=1", "stages.1.prompts_per_step=27", "stages.1.group_size=2"])
    stage = recipe.stages[1] | {"num_steps": num_steps, "checkpoint_every": 2, "max_draws_factor": 1.0}
    stage["guard"] = stage["guard"] | {"every": 2, "against": "start"}
    made = recipe.model_copy(update={"stages": [stage | {"num_steps": NUM_STEPS}]})
    return made, validate(Config, {name: value for name, value in stage.items() if name != "use"}, "stage 'rl'")


def run(runs: Path, num_steps: int, *, resume: bool) -> None:
    recipe, config = short(num_steps)
    with open_session(recipe, runs, resume=resume, console=Console(quiet=True)) as session:
        rl.run(session, config)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.skipif(bool(missing()), reason="this host cannot isolate")
def test_a_hundred_domains_train_are_measured_and_known_again_after_the_process_ended(tmp_path: Path) -> None:
    run(tmp_path, 2, resume=False)
    run(tmp_path, NUM_STEPS, resume=True)
    recipe, config = short(NUM_STEPS)
    rows = Ledger(tmp_path / "hundred_domains" / "ledger.sqlite").course(0)
    state = final_state(plan_of(config, recipe.tasks), rows)
    assert [row.step for row in rows if row.kind == "seen"] == [1, 2, 3, 4]
    assert [row.step for row in rows if row.kind == "gate"] == [2, 4]
    in_play = [one for one in state.standings.values() if one.phase != "waiting"]
    assert len(state.standings) == 108
    assert len(in_play) >= 93  # all but the harder levels
    num_groups = sum(one.num_groups for one in state.standings.values())
    assert num_groups > 0.9 * NUM_STEPS * 27  # the others had a reply that nothing could be said of
    assert max(one.num_groups for one in state.standings.values()) <= 3  # shared out evenly: 108 draws
