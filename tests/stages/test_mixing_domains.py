"""Domains that are mixed in one stage: whose gradient it is, who trains by what, and what a resumed run has of it."""

import json
import math
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from typer.testing import CliRunner

from burnish.cli import app
from burnish.core import metrics
from burnish.core.errors import ConfigError
from burnish.core.recipe import Recipe
from burnish.core.types import Verdict
from burnish.learner.policy import Policy
from burnish.rollout.collect import StepRollouts
from burnish.rollout.groups import Group
from burnish.rollout.stream_log import Key, Sampled, Trained, from_ledger
from burnish.stages import rl, training
from burnish.stages.check import open_stages
from burnish.stages.report import _curves
from burnish.stages.rl_plan import Plan, make_plan
from burnish.stages.rl_replay import replay
from burnish.stages.rl_rewards import FILE
from burnish.stages.rl_update import _parts, log_step, train
from burnish.stages.runner import run_recipe
from burnish.stages.session import Session, open_session
from tests.stages import streams
from tests.stages.streams import ScriptedVerdicts, config_of, session_of
from tests.stages.test_rl_credit import member

POINTS, RIGHT = "tests.stages.hashed_domain:points", "tests.stages.hashed_domain:right"
RAW = {"reward": {"outcome": "points"}}
STAGE = {
    "use": "rl", "num_steps": 4, "prompts_per_step": 4, "group_size": 4, "max_new_tokens": 6, "checkpoint_every": 2,
    "learning_rate": 1e-3,
}  # fmt: skip


def recipe(own: dict[str, dict[str, Any]], **stage: Any) -> Recipe:
    tasks = [{"domain": name, "num_eval": 2, "rl": rules} for name, rules in own.items()]
    return Recipe.model_validate(
        {
            "name": "mixed", "seed": 3, "threads": 1, "model": {"name": "tiny"}, "engine": {"max_rows": 32},
            "tasks": tasks, "stages": [STAGE | stage],
        }
    )  # fmt: skip


def sampled(session: Session, plan: Plan, num_prompts: int) -> list[Group]:
    return plan.collector.collect(0, 0, num_prompts=num_prompts, max_draws=4 * num_prompts).kept


def gradient_of(session: Session, plan: Plan, groups: list[Group], name: str) -> float:
    """The norm of what the replies of one domain add to the gradient of the update."""
    config = config_of(session.recipe)
    session.policy.reset_optimiser(config.optimiser_config())
    own = {(*member.token_ids,) for group in groups if group.source_name == name for member in group.members}
    (part,) = _parts(session.policy, config, plan, groups)
    for algorithm, batch, *_ in part.pieces:
        rows = [row if row.token_ids in own else replace(row, advantage=0.0) for row in batch.rows]
        session.policy.forward_backward(batch._replace(rows=rows), algorithm.loss)
    norms = [master.grad.norm() for master in session.policy.masters.values() if master.grad is not None]
    return float(torch.stack(norms).norm())


@pytest.mark.parametrize(
    ("objective", "normaliser"),
    [
        ("dr_grpo", "running"),
        pytest.param("dr_grpo", "group", marks=pytest.mark.slow),
        pytest.param("dr_grpo", "rank", marks=pytest.mark.slow),
        pytest.param("reinforce_pp@baseline", "running", marks=pytest.mark.slow),
    ],
)
def test_a_domain_of_points_and_one_of_right_or_wrong_share_the_gradient_if_normalised(
    objective: str, normaliser: str, tmp_path: Path
) -> None:
    shares: dict[str, float] = {}
    for kind in ("none", normaliser):
        own = {POINTS: RAW | {"normaliser": kind}, RIGHT: {"normaliser": kind}}
        with session_of(recipe(own, objective=objective), tmp_path / kind) as session:
            plan = make_plan(session, config_of(session.recipe))
            groups = sampled(session, plan, 24)
            norms = {name: gradient_of(session, plan, groups, name) for name in own}
        shares[kind] = norms[POINTS] / sum(norms.values())
    assert shares["none"] > 0.99
    assert 0.4 < shares[normaliser] < 0.6


MIXED = {
    POINTS: RAW | {"normaliser": "running", "objective": "dr_grpo", "temperature": 0.7, "group_size": 3},
    RIGHT: {
        "objective": "reinforce_pp", "weight": 2.0, "max_new_tokens": 4,
        "reward": {"process": {"habit": 0.3}, "cost": {"calls": 0.1}},
    },
    "arithmetic": {"objective": "gspo"},
}  # fmt: skip


def gradients(policy: Policy) -> dict[str, torch.Tensor]:
    return {name: master.grad.clone() for name, master in policy.masters.items() if master.grad is not None}


def test_an_update_is_the_sum_of_its_algorithms_each_divided_by_its_own_weight(tmp_path: Path) -> None:
    with session_of(recipe(MIXED), tmp_path) as session:
        config = config_of(session.recipe)
        plan = make_plan(session, config)
        groups = sampled(session, plan, 8)
        session.policy.reset_optimiser(config.optimiser_config())
        (part,) = _parts(session.policy, config, plan, groups)
        for piece in part.pieces:
            session.policy.forward_backward(piece.batch, piece.algorithm.loss)
        together = gradients(session.policy)
        counts = [piece.algorithm.weight * len(piece.batch.rows) for piece in part.pieces]
        expected: dict[str, torch.Tensor] = {}
        for piece, count in zip(part.pieces, counts, strict=True):
            session.policy.reset_optimiser(config.optimiser_config())
            session.policy.forward_backward(piece.batch._replace(share=1.0), piece.algorithm.loss)
            for name, gradient in gradients(session.policy).items():
                expected[name] = expected.get(name, 0) + gradient * count / sum(counts)
    assert len(counts) >= 2
    assert sorted({piece.batch.temperature for piece in part.pieces}) == [0.7, 1.0]
    for name, gradient in together.items():
        torch.testing.assert_close(gradient, expected[name], atol=1e-7, rtol=1e-4)


def test_each_domain_is_sampled_as_it_says(tmp_path: Path) -> None:
    with session_of(recipe(MIXED), tmp_path) as session:
        plan = make_plan(session, config_of(session.recipe))
        rollouts = plan.collector.collect(0, 0, num_prompts=6, max_draws=12)
    groups = [*rollouts.kept, *rollouts.dropped]
    assert {(group.source_name, len(group.members)) for group in groups} == {(POINTS, 3), (RIGHT, 4), ("arithmetic", 4)}
    longest = {
        name: max(member.num_sampled for group in groups if group.source_name == name for member in group.members)
        for name in (POINTS, RIGHT)
    }
    assert longest == {POINTS: 6, RIGHT: 4}


def test_domains_that_say_the_same_share_an_algorithm_and_a_stage_without_own_rules_has_one(tmp_path: Path) -> None:
    with session_of(recipe({POINTS: {}, RIGHT: {"group_size": 2}, "arithmetic": {}}), tmp_path) as session:
        plan = make_plan(session, config_of(session.recipe))
        (part,) = _parts(session.policy, config_of(session.recipe), plan, sampled(session, plan, 4))
    assert len({id(algorithm) for algorithm in plan.algorithms.values()}) == 1
    assert [piece.batch.share for piece in part.pieces] == [1.0]
    assert plan.saved is None


def take_steps(made: Recipe, runs: Path, *, num_steps: int, resume: bool = False) -> None:
    """The stage as `rl.run` runs it, up to so many steps; then the process is gone."""
    with session_of(made, runs, resume=resume) as session:
        config = config_of(made)
        plan = make_plan(session, config)
        session.policy.reset_optimiser(config.optimiser_config())
        first = training.resume(session, plan.saved)
        if first:
            session.ledger.commit_steps(session.position, first - 1)
        steps = rl.synchronous_steps(session, config, plan, first)
        for step, _ in zip(range(first, num_steps), steps, strict=False):
            if (step + 1) % config.checkpoint_every == 0:
                training.settle(session, step, plan.saved)


def left(runs: Path) -> tuple[dict[str, bytes], list[dict[str, Any]]]:
    """The newest checkpoint, and what was logged but for times."""
    run = runs / "mixed"
    (folder,) = (run / "checkpoints").glob("0-rl-step-*")
    rows = [
        {key: value for key, value in row.values.items() if not key.endswith("_s") and not key.startswith("verify/")}
        for row in metrics.read(run / "metrics.jsonl")
    ]
    return {name: (folder / name).read_bytes() for name in ("masters.safetensors", FILE)}, rows


def test_a_resumed_run_has_the_weights_moments_and_metrics_of_an_unbroken_one_bit_for_bit(tmp_path: Path) -> None:
    made = recipe(MIXED, updates_per_step=1)
    take_steps(made, tmp_path / "unbroken", num_steps=4)
    take_steps(made, tmp_path / "broken", num_steps=3)  # one step beyond its checkpoint
    take_steps(made, tmp_path / "broken", num_steps=4, resume=True)
    assert left(tmp_path / "unbroken") == left(tmp_path / "broken")
    moments = json.loads(left(tmp_path / "broken")[0][FILE])["domains"]
    assert list(moments) == [POINTS]
    assert moments[POINTS]["weight"] > 8
    assert 100 < moments[POINTS]["mean"] < 900


def test_going_back_to_a_checkpoint_takes_the_moments_back_too(tmp_path: Path) -> None:
    with session_of(recipe(MIXED), tmp_path) as session:
        config = config_of(session.recipe)
        plan = make_plan(session, config)
        assert plan.saved is not None
        session.policy.reset_optimiser(config.optimiser_config())
        groups = sampled(session, plan, 6)
        train(session, config, plan, 0, groups)
        then = plan.rewards.metrics()
        training.save(session, 1, plan.saved)
        plan.rewards.of(groups[:3])
        assert plan.rewards.metrics() != then
        plan.saved.load(session.folder.checkpoint(training.step_name(session, 1)))
        assert plan.rewards.metrics() == then


def weight_after(runs: Path, **second: Any) -> float:
    """How many rewards the moments stand for after the first step of a second stage, behind one that has left some."""
    made = recipe(MIXED, num_steps=1)
    tasks = [entry.model_copy(update={"when_check_fails": "train_anyway"}) for entry in made.tasks]
    stages = [made.stages[0], made.stages[0] | second]
    assert run_recipe(made.model_copy(update={"stages": stages, "tasks": tasks}), runs, resume=False) == 0
    (row,) = [row for row in metrics.read(runs / "mixed" / "metrics.jsonl") if row.stage == "1-rl"]
    moments = json.loads((runs / "mixed" / "checkpoints" / "1-rl" / FILE).read_bytes())["domains"]
    assert row.values[f"normaliser/{POINTS}/mean"] == pytest.approx(moments[POINTS]["mean"])
    return moments[POINTS]["weight"]


def test_a_stage_goes_on_with_the_moments_of_the_one_before_where_it_is_told_to(tmp_path: Path) -> None:
    fresh, carried = weight_after(tmp_path / "fresh"), weight_after(tmp_path / "carried", carry_moments=True)
    assert carried > 1.5 * fresh


def test_moments_that_nobody_has_cannot_be_carried() -> None:
    with pytest.raises(ConfigError, match=r"no entry of tasks has it; set it in \[tasks.rl\]"):
        open_stages(recipe({RIGHT: {}}, carry_moments=True))


def test_each_part_is_logged_apart_and_the_means_of_scores_stay_what_they_were(tmp_path: Path) -> None:
    take_steps(recipe(MIXED), tmp_path, num_steps=2)
    rows = [row.values for row in metrics.read(tmp_path / "mixed" / "metrics.jsonl")]
    named = {name for row in rows for name in row if name.startswith(f"reward/{RIGHT}")}
    parts = ["/part/calls", "/part/habit", "/part/score", "/process_alarm", "/process_of_failures", "/solved", "/total"]
    assert named == {f"reward/{RIGHT}{part}" for part in ["", *parts]}
    for row in rows:
        assert row[f"reward/{RIGHT}"] == row[f"reward/{RIGHT}/part/score"] == row[f"reward/{RIGHT}/solved"]
        assert row[f"reward/{POINTS}/part/points"] == pytest.approx(1000 * row[f"reward/{POINTS}"])
        assert "reward/arithmetic/total" not in row
        assert math.isfinite(row["loss"])


def test_the_report_draws_parts_in_a_chart_of_their_own() -> None:
    values = {"reward/d": 0.5, "reward/d/part/habit": 0.2, "reward/d/total": 0.6, "normaliser/d/std": 0.1}
    curves = _curves([metrics.Row(stage="0-rl", step=3, values=values)])
    assert curves["Mean reward of sampled replies, by RL step"] == {"d": [(3, 0.5)]}
    assert curves["What rewards are made of, by RL step"] == {"d/part/habit": [(3, 0.2)], "d/total": [(3, 0.6)]}


def farmed(step: int) -> StepRollouts:
    """Replies of a domain whose failures collect a part more and more, and solve nothing more."""
    verdicts = [Verdict.scored(0.0, {"habit": step / 40}), Verdict.scored(1.0, {"habit": 0.5})]
    members = (replace(member("g", number, 0.0, 2), verdict=one) for number, one in enumerate(verdicts))
    return StepRollouts([Group(f"0/{step}", RIGHT, tuple(members))], [])


def test_farming_is_told_and_logged_at_the_step_at_which_it_shows_also_by_a_resumed_run(tmp_path: Path) -> None:
    made, console = recipe({RIGHT: {"reward": {"process": {"habit": 0.3}}}}), Console(record=True, width=200)
    for resume, steps in ((False, range(12)), (True, range(12, 40))):
        with open_session(made, tmp_path, resume=resume, console=console) as session:
            plan = make_plan(session, config_of(made))
            for step in steps:
                log_step(session, plan, step, farmed(step), {}, {})
    rows = metrics.read(tmp_path / "mixed" / "metrics.jsonl")
    alarms = [row.values[f"reward/{RIGHT}/process_alarm"] for row in rows]
    assert alarms == [0.0] * 15 + [1.0] * 25
    assert console.export_text().count("failures collect process parts") == 1
    told = CliRunner().invoke(app, ["postmortem", str(tmp_path / "mixed")]).output
    assert told.count(f"alarm: failures of {RIGHT!r} collect process parts") == 1


def test_a_run_that_mixes_algorithms_with_several_updates_a_step_keeps_its_invariants(tmp_path: Path) -> None:
    own = {POINTS: RAW | {"objective": "cispo", "temperature": 0.5}, RIGHT: {"objective": "gspo", "normaliser": "rank"}}
    take_steps(recipe(own, updates_per_step=2, kl_coefficient=0.1), tmp_path, num_steps=2)
    rows = [row.values for row in metrics.read(tmp_path / "mixed" / "metrics.jsonl")]
    assert all(row["mismatch"] < 1e-3 and row["kl_ref"] >= 0 for row in rows)


def by_reply(key: Key, reply: str) -> Verdict:
    number = zlib.crc32(reply.encode())
    return Verdict.of_points(number % 1001, highest=1000, parts={"habit": number % 5 / 4, "calls": number % 2})


LATE = {
    POINTS: RAW | {"normaliser": "running", "objective": "dr_grpo", "temperature": 0.7, "group_size": 3},
    RIGHT: {"objective": "reinforce_pp", "reward": {"process": {"habit": 0.3}}, "max_staleness": 1},
    "arithmetic": {},
}  # fmt: skip


@pytest.mark.parametrize("kill_after", [None, 3])
def test_an_asynchronous_run_of_mixed_domains_is_repeated_bit_for_bit(kill_after: int | None, tmp_path: Path) -> None:
    made = recipe(LATE, max_staleness=2, num_steps=5)
    with session_of(made, tmp_path) as session:
        streams.train(session, ScriptedVerdicts(1, score=by_reply), num_steps=kill_after)
    if kill_after:
        with session_of(made, tmp_path, resume=True) as session:
            streams.train(session, ScriptedVerdicts(2, score=by_reply))
    (repeated,) = replay(tmp_path / "mixed")
    assert repeated.is_equal
    assert repeated.num_steps == 5


def test_in_an_asynchronous_run_each_domain_keeps_its_own_group_size_and_bound(tmp_path: Path) -> None:
    with session_of(recipe(LATE, max_staleness=2, num_steps=5), tmp_path) as session:
        streams.train(session, ScriptedVerdicts(1, score=by_reply))
        issued = session.ledger.issued(0)
        events = [event for moment in from_ledger(session.ledger.events(0)) for event in moment.events]
    name_of = {int(group_id.split("/")[1]): one.task_id.partition("/")[0] for group_id, one in issued.items()}
    oldest = {event.key[:2]: event.oldest_version for event in events if isinstance(event, Sampled)}
    lags: dict[str, set[int]] = {name: set() for name in LATE}
    for step in (event for event in events if isinstance(event, Trained)):
        for number, members in step.groups:
            lags[name_of[number]] |= {step.version - oldest[number, member] for member in members}
            assert len(members) == (3 if name_of[number] == POINTS else 4)
    assert max(lags[RIGHT]) == 1
    assert max(lags["arithmetic"] | lags[POINTS]) == 2
