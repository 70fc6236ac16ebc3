"""From judged groups to rows: what is taken from scores, what the whole step does, and who leaves the loss."""

from dataclasses import replace

import pytest
import torch

from burnish.core.config import validate
from burnish.core.errors import ConfigError
from burnish.core.types import StopReason, Trajectory, Verdict
from burnish.learner.packing import Row
from burnish.rollout.groups import Group
from burnish.stages.rl_config import Config
from burnish.stages.rl_credit import Shaping, credit_step
from burnish.stages.rl_loss import advantages_of, compares_groups, load_group_objective, multipliers_of


def member(group: str, number: int, score: float, num_tokens: int, stop: StopReason = "eos") -> Trajectory:
    return Trajectory(
        group_id=group, member=number, task_id="t", prompt_hash="h", seed=number,
        token_ids=(1, 2, *range(10, 10 + num_tokens)), was_sampled=(False, False, *[True] * num_tokens),
        logprobs=(0.0, 0.0, *[-0.5] * num_tokens), reply="", stop_reason=stop, oldest_version=0, newest_version=0,
        verdict=Verdict.scored(score),
    )  # fmt: skip


GROUPS = [
    Group("a", "s", (member("a", 0, 1.0, 3), member("a", 1, 0.0, 8, "length"))),
    Group("b", "s", (member("b", 0, 1.0, 4), member("b", 1, 0.0, 1), member("b", 2, 0.5, 2))),
]


def credited(name: str, shaping: Shaping | None = None, *, filter_overlong: bool = False) -> list[list[Row]]:
    choice = load_group_objective(name, {})
    return credit_step(GROUPS, advantages_of(choice), choice, shaping or Shaping(), filter_overlong=filter_overlong)


def advantages(rows_P: list[list[Row]]) -> list[list[float]]:
    return [[row.advantage for row in rows] for rows in rows_P]


def test_without_shaping_groups_are_compared_by_their_scores() -> None:
    assert advantages(credited("dr_grpo")) == [[0.5, -0.5], [0.5, -0.5, 0.0]]


def test_a_cut_off_reply_leaves_the_loss_but_not_its_groups_baseline() -> None:
    assert advantages(credited("dr_grpo", filter_overlong=True)) == [[0.5], [0.5, -0.5, 0.0]]


def test_the_overlong_penalty_is_taken_from_the_score_before_groups_are_compared() -> None:
    found = advantages(credited("dr_grpo", Shaping(overlong_cache=4, max_length=8)))
    assert found[0] == [1.0, -1.0]  # 1 against 0 - 1
    assert found[1] == [0.5, -0.5, 0.0]


def test_kl_in_the_reward_is_taken_from_the_score() -> None:
    def reference(rows: list[Row]) -> list[torch.Tensor]:
        return [torch.full((row.num_trained,), -0.75) for row in rows]

    found = advantages(credited("dr_grpo", Shaping(kl_coefficient=0.1, reference=reference)))
    lengths = [3, 8]
    rewards = [score - 0.1 * 0.25 * length for score, length in zip([1.0, 0.0], lengths, strict=True)]
    assert found[0] == pytest.approx([(rewards[0] - rewards[1]) / 2, (rewards[1] - rewards[0]) / 2])


def test_reinforce_pp_takes_kl_from_each_token_to_the_end_of_its_reply() -> None:
    groups = [Group("a", "s", (member("a", 0, 1.0, 3),)), Group("b", "s", (member("b", 0, 0.0, 1),))]
    refs = {3: [-0.6, -0.5, -0.9], 1: [-0.3]}  # k1 is 0.1, 0, 0.4 and -0.2

    def reference(rows: list[Row]) -> list[torch.Tensor]:
        return [torch.tensor(refs[row.num_trained]) for row in rows]

    choice = load_group_objective("reinforce_pp", {})
    shaping = Shaping(kl_coefficient=0.5, reference=reference)
    (one,), (other,) = credit_step(groups, advantages_of(choice), choice, shaping)
    raw_T = torch.tensor([1 - 0.25, 1 - 0.2, 1 - 0.2, 0.1])
    expected_T = (raw_T - raw_T.mean()) / raw_T.std()
    assert one.token_advantages and other.token_advantages
    torch.testing.assert_close(torch.tensor(one.token_advantages + other.token_advantages), expected_T)


def test_the_whole_step_is_whitened_over_tokens() -> None:
    rows_P = credited("reinforce_pp")
    values_T = torch.cat([torch.full((row.num_trained,), row.advantage) for rows in rows_P for row in rows])
    assert values_T.mean().item() == pytest.approx(0.0, abs=1e-5)
    assert values_T.std().item() == pytest.approx(1.0, abs=1e-4)


def test_every_prompt_counts_alike_also_where_replies_left_the_loss() -> None:
    groups = [
        Group("a", "s", (member("a", 0, 1.0, 3), member("a", 1, 0.0, 9, "length"))),
        Group("b", "s", (member("b", 0, 1.0, 3, "length"), member("b", 1, 0.0, 3, "length"))),
        Group("c", "s", (member("c", 0, 1.0, 2), member("c", 1, 0.0, 4))),
    ]
    choice = load_group_objective("cispo@scalerl", {})
    rows_P = credit_step(groups, advantages_of(choice), choice, Shaping(), filter_overlong=True)
    first, none, last = [sum(abs(row.advantage) * row.num_trained for row in rows) for rows in rows_P]
    assert none == 0
    assert first == pytest.approx(last) != 0


def test_rows_keep_all_but_their_advantage_through_the_whole_step() -> None:
    for rows, plain in zip(credited("cispo@scalerl"), credited("dr_grpo"), strict=True):
        assert [replace(row, advantage=0.0) for row in rows] == [replace(row, advantage=0.0) for row in plain]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"objective": "cispo@scalerl", "correction": "tis"}, "would count it twice; leave correction out"),
        ({"objective": "oapl", "correction": "icepop"}, "not linear in its advantages"),
        ({"kl_in": "reward", "kl_kind": "k3", "kl_coefficient": 0.1}, "kl_in 'reward' is always k1"),
        ({"objective": "awr", "correction": "icepop"}, "'awr' is not linear in its advantages"),
        (
            {"objective": "oapl", "objective_options": {"ratio_to_sampler": False}, "correction": "tis"},
            "'oapl' is not linear in its advantages",
        ),
        ({"objective": "cispo@scalerl", "aggregation": "seq_mean_token_mean"}, "averages over prompts"),
        ({"kl_kind": "k3"}, "kl_kind without kl_coefficient does nothing"),
        ({"kl_in": "reward"}, "kl_in without kl_coefficient does nothing"),
        ({"decay_share": 0.5}, "decay_share is of decay 'warmup_stable_decay', and decay is 'constant'"),
        ({"overlong_cache": 4}, r"counts back from max_new_tokens \(None\)"),
        ({"overlong_cache": 9, "max_new_tokens": 8}, r"overlong_cache \(9\)"),
        (
            {"correction": "tis", "correction_options": {"low": 0.1}},
            "correction 'tis' has no option 'low'; it has: cap",
        ),
        ({"objective": "rloo", "updates_per_step": 2}, "'rloo' has no ratio.*set updates_per_step to 1"),
        ({"objective": "reinforce", "updates_per_step": 2}, "'reinforce' has no ratio"),
        ({"objective": "reinforce", "max_draws_factor": 2.0}, "'reinforce' compares no group"),
        ({"objective": "reinforce_pp@baseline", "group_size": 1}, "compares the replies to a prompt"),
        ({"correction": "icepop", "correction_options": {"low": 1.5}}, "a ratio of 1 needs no correction"),
        ({"aggregation": "pair_mean"}, "'pair_mean' is of pairs"),
        (
            {"objective": "maxrl", "overlong_cache": 4, "max_new_tokens": 8},
            "'maxrl' divides by the mean.*overlong_cache",
        ),
        ({"objective": "maxrl", "kl_in": "reward", "kl_coefficient": 0.1}, "'maxrl' divides by the mean.*kl_in"),
        ({"objective_options": {"clip_low": 0.1, "dual_clip": 3.0}}, "clip_low and dual_clip would do nothing"),
        ({"kl_top_k": 4, "kl_coefficient": 0.1}, "kl_top_k is of kl_kind 'top_k'"),
        ({"objective": "opd"}, "'opd' has no advantages of groups"),
        ({"objective": "cispo@slime"}, "'cispo' has no dialect 'slime'"),
    ],
)
def test_options_that_contradict_each_other_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        validate(Config, {"num_steps": 1, **options}, "stage 'rl'")


def test_only_what_compares_a_group_needs_one() -> None:
    for objective, expected in [("reinforce", False), ("reinforce_pp", False), ("reinforce_pp@baseline", True)]:
        assert compares_groups(load_group_objective(objective, {})) == expected
    assert Config(num_steps=1, objective="reinforce_pp", group_size=1, updates_per_step=2)


def test_a_group_that_scored_alike_teaches_where_the_step_is_the_baseline() -> None:
    groups = [
        Group("a", "s", (member("a", 0, 1.0, 2), member("a", 1, 1.0, 2))),
        Group("b", "s", (member("b", 0, 0, 4),)),
    ]
    choice = load_group_objective("reinforce_pp", {})
    alike, others = credit_step(groups, advantages_of(choice), choice, Shaping())
    spread = (8 / 7 * 0.25) ** 0.5  # of four tokens of 1 and four of 0, unbiased
    assert [row.advantage for row in [*alike, *others]] == pytest.approx([0.5 / spread] * 2 + [-0.5 / spread])


def test_the_correction_follows_the_objective_unless_it_is_named() -> None:
    for objective, expected in [
        ("dapo", "tis"),
        ("oapl", "none"),
        ("awr", "none"),
        ("cispo@scalerl", "none"),
        ("cispo", "tis"),
    ]:
        config = Config(num_steps=1, objective=objective)
        assert config.used_correction(load_group_objective(objective, {})) == expected


def test_bounds_of_a_correction_are_those_of_the_recipe() -> None:
    assert multipliers_of("none", {}) is None
    bounded = multipliers_of("geometric_mask_tis", {"low": 0.9, "high": 1.1, "cap": 1.5})
    assert bounded is not None
