"""PPO in stage `rl`: a value model beside the policy, over sampled tokens alone."""

import math
from pathlib import Path

import pytest
import torch

from burnish.core import metrics
from burnish.core.errors import ConfigError
from burnish.core.recipe import read_recipe
from burnish.learner.optimiser import OptimiserConfig
from burnish.learner.packing import Row
from burnish.learner.policy import Policy
from burnish.objectives import gae, ppo
from burnish.stages.check import check_recipe
from burnish.stages.rl_critic import Critic, CriticConfig, Valued, new_critic, value_metrics, whitened
from burnish.stages.runner import run_recipe
from tests.fakes import random_model

RECIPE = Path(__file__).parents[2] / "recipes" / "arithmetic_tiny.toml"
PROMPT = tuple(range(10, 20))
# The policy chose 1, 2, then the environment said 7, 8, then the policy chose 3.
TOOL = Row(
    token_ids=(*PROMPT, 1, 2, 7, 8, 3), was_sampled=(*[False] * 10, True, True, False, False, True), advantage=1.0
)
PLAIN = Row(token_ids=(*PROMPT, 4, 5), was_sampled=(*[False] * 10, True, True), advantage=0.0)


def policy_of(seed: int = 0) -> Policy:
    model = random_model("llama", seed).requires_grad_(True)
    return Policy(model, dict(model.named_parameters()), max_pack_tokens=64)


def critic_of(policy: Policy, **options: object) -> Critic:
    config = CriticConfig.model_validate(options)
    critic = new_critic(policy, config, ppo.Config(), OptimiserConfig(), max_pack_tokens=64)
    with torch.no_grad():
        critic.model.head.score.weight.normal_(std=0.1, generator=torch.Generator().manual_seed(1))
    return critic


def test_what_the_environment_said_is_no_step_of_the_estimate() -> None:
    critic = critic_of(policy_of(), lam=0.9, gamma=0.8, whiten=False)
    (valued,) = critic.value([[TOOL]])
    (all_tokens,) = critic.model.outputs([Row(token_ids=TOOL.token_ids, was_sampled=(False, *[True] * 14))])
    values_T = torch.cat([torch.zeros(1), all_tokens[:, 0]])
    rewards_T = torch.zeros(15)
    rewards_T[-1] = 1.0
    whole = gae.estimate(rewards_T, values_T, torch.tensor(TOOL.was_sampled), gamma=0.8, lam=0.9)
    chosen_T = torch.tensor(TOOL.was_sampled)
    torch.testing.assert_close(valued.advantages[0], whole.advantages_T[chosen_T])
    torch.testing.assert_close(valued.returns[0], whole.returns_T[chosen_T])


def test_a_new_critic_values_nothing_so_that_returns_are_the_reward() -> None:
    critic = new_critic(
        policy_of(), CriticConfig(lam=1.0, whiten=False), ppo.Config(), OptimiserConfig(), max_pack_tokens=64
    )
    (valued,) = critic.value([[TOOL, PLAIN]])
    torch.testing.assert_close(valued.advantages[0], torch.ones(3))
    torch.testing.assert_close(valued.returns[1], torch.zeros(2))


def test_values_learn_the_returns_and_never_move_the_policy() -> None:
    policy = policy_of()
    before = policy.snapshot()
    critic = critic_of(policy, lam=1.0)
    errors = []
    for _ in range(20):
        (valued,) = critic.value([[TOOL, PLAIN]])
        errors.append(critic.update([TOOL, PLAIN], valued, 3e-3)["value_error"])
    assert errors[-1] < 0.2 * errors[0], errors
    assert all(policy.masters[name].equal(value) for name, value in before.items())
    (valued,) = critic.value([[TOOL, PLAIN]])
    assert value_metrics([valued])["explained_variance"] > 0.5


def test_several_passes_are_several_steps_towards_the_same_returns() -> None:
    once, twice = (critic_of(policy_of(), num_passes=num) for num in (1, 2))
    (valued,) = once.value([[PLAIN]])
    found = [critic.update([PLAIN], valued, 1e-2)["value_error"] for critic in (once, twice, once, twice)]
    assert found[0] == pytest.approx(found[1])
    after_two = critic_of(policy_of(), num_passes=1)
    for _ in range(2):
        after_two.update([PLAIN], valued, 1e-2)
    assert found[3] == pytest.approx(after_two.update([PLAIN], valued, 1e-2)["value_error"])
    assert found[3] != pytest.approx(found[2], rel=1e-3)


def test_value_clip_holds_values_near_what_they_were() -> None:
    critic = critic_of(policy_of())
    valued = Valued(
        advantages=[torch.zeros(2)],
        returns=[torch.full((2,), 5.0)],
        values=[critic.model.outputs([PLAIN])[0][:, 0] - 1.0],
    )
    clipped = Critic(model=critic.model, config=critic.config, loss=ppo.Config(value_clip=0.25))
    now = valued.values[0] + 1.0
    held = torch.maximum((now - 5).square(), (now - 0.75 - 5).square())
    assert clipped.update([PLAIN], valued, 0.0)["value_error"] == pytest.approx(float(held.mean()), abs=1e-4)


def test_advantages_are_whitened_over_the_tokens_of_the_step() -> None:
    parts = [
        Valued(advantages=[torch.tensor([1.0, 2.0]), torch.tensor([6.0])], returns=[], values=[]),
        Valued(advantages=[torch.tensor([-1.0])], returns=[], values=[]),
    ]
    first, second = whitened(parts)
    flat = torch.cat([*first.advantages, *second.advantages])
    spread = math.sqrt(6.5)  # of 1, 2, 6, -1: mean 2, squares 1 + 0 + 16 + 9
    torch.testing.assert_close(flat, torch.tensor([-1.0, 0.0, 4.0, -3.0]) / spread)


def test_explained_variance_is_one_less_the_share_that_values_miss() -> None:
    valued = Valued(advantages=[], returns=[torch.tensor([0.0, 2.0])], values=[torch.tensor([0.5, 1.5])])
    assert value_metrics([valued]) == {"value_mean": 1.0, "return_mean": 1.0, "explained_variance": 0.75}
    alike = Valued(advantages=[], returns=[torch.ones(2)], values=[torch.zeros(2)])
    assert "explained_variance" not in value_metrics([alike])


@pytest.mark.parametrize(
    ("assignments", "message"),
    [
        (["objective=ppo", "max_draws_factor=2"], "compares no group.*leave max_draws_factor out"),
        (["objective=ppo", "objective_options={value_coefficient=0.5}"], "set critic.learning_rate"),
        (["objective=ppo", "objective_options={value_clip=0.2}"], "raise updates_per_step or critic.num_passes"),
        (["objective=ppo", "critic={num_warmup_steps=40}"], "leaves the policy no step of num_steps"),
        (["objective=ppo", "objective_options={divide_by_std=true}"], "no option 'divide_by_std'"),
        (["objective=dapo", "critic={lam=0.9}"], "'dapo' has no value model; leave critic out, or take 'ppo'"),
        (["objective=dapo", "group_size=1"], "set group_size to at least 2, or take objective 'reinforce_pp'"),
        (["objective=opd"], "'opd' has no advantages of groups"),
    ],
)
def test_options_that_do_nothing_or_contradict_are_refused(assignments: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_recipe(read_recipe(RECIPE, [f"stages.3.{assignment}" for assignment in assignments]))


def test_a_warm_up_moves_the_values_alone_and_one_reply_a_prompt_is_enough(tmp_path: Path) -> None:
    rl = {"use": "rl", "objective": "ppo", "num_steps": 3, "prompts_per_step": 2, "group_size": 1}
    stages = [rl | {"critic": {"num_warmup_steps": 2}, "num_warmup": 0}]
    recipe = read_recipe(RECIPE).model_copy(update={"stages": stages})
    run_recipe(recipe, tmp_path, resume=False)
    rows = metrics.read(tmp_path / "arithmetic_tiny" / "metrics.jsonl")
    assert [("grad_norm" in row.values, "value_error" in row.values) for row in rows] == [
        (False, True), (False, True), (True, True),
    ]  # fmt: skip
