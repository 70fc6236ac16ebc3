"""`overdue = "mask"`: tokens that are too old stay out of the loss, the others and the whole reply's reward count."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from burnish.core import metrics
from burnish.core.errors import InvariantError
from burnish.core.types import StopReason, Trajectory, VersionChange
from burnish.data import trajectory_files
from burnish.learner.packing import Row
from burnish.rollout.groups import Group
from burnish.rollout.scheduler_types import Decision, Ticket
from burnish.stages.rl_credit import Shaping, credit_step
from burnish.stages.rl_loss import advantages_of, load_group_objective
from burnish.stages.rl_plan import make_plan
from burnish.stages.rl_replay import replay
from burnish.stages.rl_staleness import AgeLimit, staleness_metrics
from burnish.stages.rl_stream import _Loop
from burnish.stages.rl_trainer import Trainer, Versions
from burnish.stages.rl_update import train
from tests.stages import streams
from tests.stages.streams import Clock, ScriptedVerdicts, config_of, recipe, session_of
from tests.stages.test_rl_credit import member

LIMIT = AgeLimit(lambda num_steps: num_steps)
"""A step is a version."""


def aged(number: int, score: float, versions: Sequence[int], stop: StopReason = "eos") -> Trajectory:
    """Two tokens of prompt, then one of each of these versions."""
    changes = [VersionChange(2 + i, version) for i, version in enumerate(versions) if i and version != versions[i - 1]]
    return replace(
        member("a", number, score, len(versions), stop), oldest_version=versions[0], newest_version=versions[-1],
        version_changes=tuple(changes),
    )  # fmt: skip


MIXED, FRESH, OLD = aged(0, 1.0, (3, 3, 5)), aged(1, 0.0, (5, 5)), aged(2, 0.5, (2, 3, 3, 3))
GROUP = Group("a", "arithmetic", (MIXED, FRESH, OLD))
AT_FIVE = LIMIT.masking(5, {"a": 1})
"""At version 5 tokens of version 4 train, and older ones do not."""


def rows_of(name: str, shaping: Shaping | None = None, limit: AgeLimit = AT_FIVE) -> list[Row]:
    choice = load_group_objective(name, {})
    (rows,) = credit_step(
        [GROUP], advantages_of(choice), choice, shaping or Shaping(), first_trained=limit.first_trained
    )
    return rows


def test_old_tokens_stay_out_of_the_loss_and_every_reward_counts_in_full() -> None:
    one, other = rows_of("dr_grpo")
    assert (one.was_sampled, other.was_sampled) == ((False, False, False, False, True), (False, False, True, True))
    assert [row.advantage for row in (one, other)] == [0.5, -0.5]  # the mean of 1, 0 and 0.5, the old reply's too
    assert (one.token_ids, one.rollout_logprobs) == (MIXED.token_ids, MIXED.logprobs)


def test_a_token_as_old_as_the_bound_trains() -> None:
    assert [row.num_trained for row in rows_of("dr_grpo", limit=LIMIT.masking(5, {"a": 2}))] == [3, 2, 3]
    assert [row.num_trained for row in rows_of("dr_grpo", limit=LIMIT)] == [3, 2, 4]


def test_advantages_by_token_stay_with_their_tokens_and_are_whitened_over_those_that_train() -> None:
    def reference(rows: list[Row]) -> list[torch.Tensor]:
        return [torch.linspace(-0.6, -0.4, row.num_trained) for row in rows]

    one, other = rows_of("reinforce_pp", Shaping(kl_coefficient=1.0, reference=reference))
    raw_T = torch.tensor([1 - (-0.5 + 0.4), 0 - (0.1 - 0.1), 0 - (-0.1)])  # k1 of the last; of both; of the last
    expected_T = (raw_T - raw_T.mean()) / raw_T.std()
    assert one.token_advantages and other.token_advantages
    torch.testing.assert_close(torch.tensor(one.token_advantages + other.token_advantages), expected_T)


@pytest.mark.parametrize(
    ("aggregation", "expected"),
    [
        ("token_mean", -(0.5 * 1 - 0.5 * 2) / 3),  # three tokens train, of nine that were sampled
        ("seq_mean_token_mean", -(0.5 - 0.5) / 2),
        ("sum_over_max_length", -(0.5 * 1 - 0.5 * 2) / (2 * 6)),
    ],
)
def test_a_loss_is_divided_by_what_trains(aggregation: str, expected: float, tmp_path: Path) -> None:
    made = recipe(
        objective="dr_grpo", correction="none", aggregation=aggregation, max_staleness=1, scheduler={"overdue": "mask"}
    )
    with session_of(made, tmp_path) as session:
        config = config_of(made)
        session.policy.renumber(6)  # none is as new as the weights, whose sampler would have to agree with them
        stops = [replace(one, stop_reason="length") for one in GROUP.members]
        found = train(
            session,
            config,
            make_plan(session, config),
            0,
            [GROUP._replace(members=tuple(stops))],
            age_limit=LIMIT.masking(6, {"a": 2}),
        )
    assert found["loss"] == pytest.approx(expected, abs=1e-6)
    assert found["tokens_trained"] == 3


def test_staleness_is_that_of_what_trains() -> None:
    found = staleness_metrics([GROUP], 5, 1, lambda version: version, AT_FIVE)
    assert (found["staleness/0"], found["staleness/1"], found["staleness_mean"]) == (1.0, 0.0, 0.0)
    assert found["overdue_masked"] == pytest.approx(6 / 9)
    assert "overdue_masked" not in staleness_metrics([GROUP], 5, 3, lambda version: version, LIMIT)


def test_a_run_trains_on_what_is_young_enough_of_late_replies_and_is_repeated_bit_for_bit(tmp_path: Path) -> None:
    options = {
        "max_staleness": 1, "num_steps": 6, "max_new_tokens": 24,
        "scheduler": {"overdue": "mask", "oversample": 1.0, "batch_order": "ready"},
    }  # fmt: skip
    for seed, end in enumerate((5, None)):  # the process ends once
        with session_of(recipe(**options), tmp_path, resume=bool(seed)) as session:
            streams.train(session, ScriptedVerdicts(1), num_steps=end)
    folder = tmp_path / "stream"
    masked = [row.values["overdue_masked"] for row in metrics.read(folder / "metrics.jsonl")]
    assert 0 < max(masked) < 1
    kept = [one for path in (folder / "trajectories").glob("*.parquet") for one in trajectory_files.read(path)]
    mixed = [one for one in kept if one.oldest_version != one.newest_version]
    assert mixed
    assert all(one.version_changes[-1].version == one.newest_version for one in mixed)
    assert all(one.was_sampled[change.first - 1] for one in mixed for change in one.version_changes)
    (repeated,) = replay(folder)
    assert repeated.is_equal


def test_a_pause_that_an_engine_cannot_make_changes_nothing(tmp_path: Path) -> None:
    made = recipe(scheduler={"overdue": "mask"})
    with session_of(made, tmp_path) as session:
        config, versions = config_of(made), Versions()
        versions.begin(0, session.policy.version)
        loop = _Loop(
            Trainer(session, config, make_plan(session, config), versions), session.means.engine, [],
            ScriptedVerdicts(1), Clock(),
        )  # fmt: skip
        loop._carry_out(Decision(pause=(Ticket("0/0000001", 0, 0),)), 1.0)
        assert session.ledger.events(0) == []


def test_a_reply_whose_changes_are_not_known_is_not_masked_by_guess(tmp_path: Path) -> None:
    made = recipe(max_staleness=1, scheduler={"overdue": "mask"})
    unknown = replace(MIXED, version_changes=())
    with session_of(made, tmp_path) as session:
        config = config_of(made)
        session.policy.renumber(5)
        with pytest.raises(InvariantError, match=r"of versions \[3\] in this order, the newest 5"):
            train(
                session, config, make_plan(session, config), 0, [GROUP._replace(members=(unknown, FRESH))],
                age_limit=AT_FIVE,
            )  # fmt: skip
