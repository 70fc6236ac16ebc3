"""What a domain may say of itself in stage `rl`: it is the stage's options with its own on top, or it is refused."""

from dataclasses import replace
from typing import Any

import pytest

from burnish.core.config import validate
from burnish.core.errors import ConfigError
from burnish.core.recipe import TaskEntry
from burnish.core.types import Verdict
from burnish.rollout.groups import Group
from burnish.stages.rl_config import Config
from burnish.stages.rl_domains import Rule, rules_of
from tests.stages.test_rl_credit import member

PARTS = {"process": {"located": 0.2}}


def rules(stage: dict[str, Any], *own: dict[str, Any]) -> dict[str, Rule]:
    config = validate(Config, {"num_steps": 4, **stage}, "stage 'rl'")
    entries = [TaskEntry(domain=f"d{number}", rl=rl) for number, rl in enumerate(own)]
    return dict(rules_of(config, entries))


def rule(own: dict[str, Any], **stage: Any) -> Rule:
    return rules(stage, own)["d0"]


def test_a_domain_that_says_nothing_has_the_rule_of_the_stage() -> None:
    found = rules({"temperature": 0.7}, {}, {"group_size": 3}, {})
    assert found["d0"] is found["d2"]
    assert found["d0"].config.temperature == found["d1"].config.temperature == 0.7
    assert (found["d0"].config.group_size, found["d1"].config.group_size) == (8, 3)


def test_a_domain_that_names_an_objective_takes_nothing_of_the_stages_choices_about_its_own() -> None:
    stage = {"objective": "grpo", "objective_options": {"epsilon": 0.5}, "aggregation": "token_mean"}
    found = rule({"objective": "gspo"}, **stage)
    assert found.choice.config.epsilon == 1e-6
    assert found.config.aggregation is None


def test_options_without_an_objective_go_on_top_of_the_stages() -> None:
    stage = {"objective": "grpo", "objective_options": {"epsilon": 0.5, "divide_by_std": True}}
    assert rule({"objective_options": {"epsilon": 0.25}}, **stage).choice.config.epsilon == 0.25
    assert rule({"objective_options": {"epsilon": 0.25}}, **stage).config.objective_options["divide_by_std"] is True


@pytest.mark.parametrize(
    ("own", "stage", "message"),
    [
        ({"objektive": "grpo"}, {}, "unknown key 'objektive'; did you mean 'objective'"),
        ({"objective": "grop"}, {}, "no plugin 'grop'"),
        ({"normaliser": "z"}, {}, "normaliser"),
        ({"group_size": 1}, {}, "compares the replies to a prompt; set group_size"),
        ({"objective": "rloo"}, {"updates_per_step": 2}, "'rloo' has no ratio.*set updates_per_step to 1"),
        ({"objective": "reinforce"}, {"max_staleness": 1}, "'reinforce' has no ratio.*set max_staleness to 0"),
        ({"objective": "dr_grpo"}, {}, "divides by max_new_tokens; set it"),
        ({"max_new_tokens": 8}, {"overlong_cache": 9, "max_new_tokens": 16}, r"overlong_cache \(9\)"),
        ({"max_staleness": 3}, {"max_staleness": 2}, r"max_staleness \(3\) is above the stage's \(2\)"),
        ({"objective": "ppo"}, {}, "has a value model, which all domains share; make it the stage's"),
        ({"objective": "grpo"}, {"objective": "ppo"}, "one value model for all domains; leave out objective"),
        ({"temperature": 0.5, "weight": 2.0}, {"objective": "ppo"}, "leave out temperature and weight"),
        ({"normaliser": "group"}, {}, "'dapo' measures replies in units of their group's spread, so .* do nothing"),
        ({"normaliser": "running"}, {"objective": "grpo"}, "so normaliser 'running' would do nothing"),
        ({"normaliser": "component"}, {}, "this reward has one; name parts in reward"),
        ({"normaliser": "rank", "group_size": 1}, {"objective": "reinforce"}, "'rank' compares the replies"),
        ({"normaliser": "rank", "objective": "maxrl"}, {}, "'maxrl' divides by the mean"),
        ({"objective": "maxrl", "reward": {"cost": {"calls": 0.1}}}, {}, "'maxrl' divides by the mean"),
        ({"clip": 1.0}, {}, r"clip \(1\) does nothing, because these rewards are at most 1"),
        ({"clip": 1.0, "normaliser": "rank"}, {}, r"clip \(1\) does nothing"),
        ({"weight": 0.0}, {}, "greater than 0"),
        ({"reward": {"process": {"a": 0.6}}}, {}, "the weights come to 0.6"),
    ],
)
def test_what_cannot_be_honoured_is_refused_with_the_way_out(
    own: dict[str, Any], stage: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message) as refused:
        rule(own, **stage)
    assert str(refused.value).startswith("tasks.0.rl")


def test_entries_under_one_name_have_one_rule() -> None:
    entries = [TaskEntry(domain="a", group="g", rl={"clip": 0.5}), TaskEntry(domain="b", group="g")]
    with pytest.raises(ConfigError, match=r"tasks\.0 and tasks\.1 are both reported under 'g', with different rl"):
        rules_of(Config(num_steps=1), entries)


def test_a_running_normaliser_is_clipped_where_the_recipe_says_nothing() -> None:
    stage = {"objective": "reinforce_pp"}
    assert rule({"normaliser": "running"}, **stage).clip == 5
    assert rule({"normaliser": "running", "clip": 2.0}, **stage).clip == 2


def group(*verdicts: Verdict) -> Group:
    members = (replace(member("a", number, 0.0, 2), verdict=verdict) for number, verdict in enumerate(verdicts))
    return Group("a", "d0", tuple(members))


SOLVED = Verdict.scored(1.0, {"located": 0.0, "calls": 0.0})
WELL = Verdict.scored(1.0, {"located": 1.0, "calls": 0.4})
TIED = {"reward": {"process": {"located": 0.2}, "cost": {"calls": 0.5}}}


@pytest.mark.parametrize(
    ("own", "is_wanted"),
    [
        ({}, False),  # the scores are alike
        ({"reward": PARTS}, True),  # the rewards are not
        (TIED, False),  # the totals are alike
        (TIED | {"normaliser": "component"}, True),  # their parts are not
        ({"objective": "reinforce"}, True),  # nothing is compared
        ({"objective": "reinforce", "normaliser": "rank"}, False),  # now it is
    ],
)
def test_a_group_is_wanted_where_its_rewards_teach_something(own: dict[str, Any], is_wanted: bool) -> None:
    assert rule(own).is_wanted(group(SOLVED, WELL)) is is_wanted
