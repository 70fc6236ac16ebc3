"""The report: `reports/report.html`, `reports/summary.json` and the final table, from what the run has kept."""

import json
import platform
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import torch
import transformers
from rich.table import Table

from burnish import __version__
from burnish.core import metrics
from burnish.core.config import Strict
from burnish.core.run_folder import write_whole
from burnish.dashboard.charts import write_learning_curve_svg
from burnish.dashboard.data import Curve, DomainResult, Outcome, ReportData, summary_json
from burnish.dashboard.report import write_report
from burnish.dashboard.verification import verification_of
from burnish.evals.gate import compare, gate
from burnish.evals.records import failures, summarise
from burnish.stages.course_report import courses
from burnish.stages.evaluate import results_at
from burnish.stages.gate import evaluations
from burnish.stages.report_episodes import episode_pairs
from burnish.stages.report_samples import trajectory_views
from burnish.stages.rl_parts import is_part
from burnish.stages.session import Session

HELD_OUT = "Score on held-out tasks, by training step"
_REWARDS = "Mean reward of sampled replies, by RL step"
_PARTS = "What rewards are made of, by RL step"
_CHARTS = {
    "entropy": "Entropy of the policy (nats a token)",
    "mismatch": "Sampler against learner (mean absolute difference, nats a token)",
    "reply_tokens": "Reply length (tokens)",
    "num_groups_without_signal": "Groups without signal, a step",
    "grad_norm": "Gradient norm before clipping",
}


class Config(Strict):
    """There is nothing to choose."""


def run(session: Session, config: Config) -> dict[str, Any]:
    """Write the report and print the table."""
    session.heartbeat()
    data = report_data(session)
    reports = session.folder.path / "reports"
    write_report(reports / "report.html", data)
    write_learning_curve_svg(reports / "learning_curves.svg", data.curves[HELD_OUT], HELD_OUT)
    summary = json.dumps(summary_json(data), indent=2)
    write_whole(reports / "summary.json", lambda temporary: temporary.write_text(summary, encoding="utf-8"))
    session.console.print(_table(data))
    session.console.print(f"Report: {reports / 'report.html'}")
    return {"report": str(reports / "report.html")}


def report_data(session: Session) -> ReportData:
    """Gather the run's numbers."""
    gated = _gate_result(session)
    rows = metrics.read(session.folder.path / "metrics.jsonl")
    chosen = gated.get("chosen", (evaluations(session) or [None])[-1])
    return ReportData(
        name=session.recipe.name,
        outcome=_outcome(gated),
        seed=session.recipe.seed,
        wall_s=round(session.ledger.wall_s(), 1),
        peak_rss_mb=round(session.ledger.peak_rss_mb(), 1),
        tokens_sampled=int(_total(rows, "tokens_sampled")),
        tokens_trained=int(_total(rows, "tokens_trained")),
        domains=_domains(session, chosen),
        curves={HELD_OUT: _held_out_curves(session, rows)} | _curves(rows),
        interactions=by_interactions(rows),
        trajectories=trajectory_views(session),
        episodes=episode_pairs(session, evaluations(session)[0], chosen) if chosen is not None else [],
        failures=failures(results_at(session, chosen)) if chosen is not None else {},
        verification=verification_of(row.values for row in rows),
        courses=courses(session),
        timing_s=_timing(rows),
        facts=_facts(session),
        recipe=json.dumps(session.recipe.model_dump(mode="json"), indent=2),
    )


def _gate_result(session: Session) -> dict[str, Any]:
    for position, stage in enumerate(session.recipe.stages):
        result = session.ledger.stage_result(position)
        if stage["use"] == "gate" and result is not None:
            return result
    return {}


def _outcome(gated: Mapping[str, Any]) -> Outcome:
    return "ungated" if not gated else "promoted" if gated["outcome"] == "promoted" else "held"


def _domains(session: Session, chosen: int | None) -> dict[str, DomainResult]:
    if chosen is None:
        return {}
    positions = evaluations(session)
    comparisons = compare(results_at(session, positions[0]), results_at(session, chosen))
    decision = gate(comparisons)
    labels = {p: (session.ledger.stage_result(p) or {})["label"] for p in positions}
    between = {labels[p]: summarise(results_at(session, p)) for p in positions[1:] if p != chosen}
    return {
        name: DomainResult(
            before=c.before,
            after=c.after,
            difference=c.difference,
            paired_p=c.paired_p,
            adjusted_p=decision.adjusted_p[name],
            reason=decision.reasons[name],
            checkpoints={label: summary[name] for label, summary in between.items() if name in summary},
            not_scored_before=c.not_scored_before,
            not_scored_after=c.not_scored_after,
        )
        for name, c in comparisons.items()
    }


def _held_out_curves(session: Session, rows: list[metrics.Row]) -> dict[str, Curve]:
    """Each domain's held-out mean at each evaluation, over the training steps that came before it."""
    curves: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    for position in evaluations(session):
        num_steps = sum("tokens_trained" in row.values and int(row.stage.partition("-")[0]) < position for row in rows)
        for name, interval in summarise(results_at(session, position)).items():
            curves[name].append((num_steps, interval.mean))
    return dict(curves)


def _curves(rows: list[metrics.Row]) -> dict[str, dict[str, Curve]]:
    curves: defaultdict[str, defaultdict[str, list[tuple[float, float]]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        for name, value in row.values.items():
            if name.startswith("reward/"):
                title = _PARTS if is_part(name) else _REWARDS
                curves[title][name.removeprefix("reward/")].append((row.step, value))
            elif name in _CHARTS:
                curves[_CHARTS[name]][row.stage].append((row.step, value))
            elif name == "loss" and row.stage.endswith("-sft"):
                curves["SFT loss (nats a token)"][row.stage].append((row.step, value))
    return {title: dict(series) for title, series in sorted(curves.items(), key=lambda item: item[0] != _REWARDS)}


def by_interactions(rows: list[metrics.Row]) -> dict[str, Curve]:
    """The mean reward of each domain's sampled replies, over the interactions that the run had taken by then."""
    curves: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    spent = 0.0
    for row in rows:
        spent += row.values.get("interactions", 0.0)
        for name, value in row.values.items() if "interactions" in row.values else ():
            if name.startswith("reward/") and not is_part(name):
                curves[name.removeprefix("reward/")].append((spent, value))
    return dict(curves)


def _timing(rows: list[metrics.Row]) -> dict[str, float]:
    phases: defaultdict[str, float] = defaultdict(float)
    for row in rows:
        for name, value in row.values.items():
            if name.endswith("_s"):
                phases[f"{row.stage.partition('-')[2]}: {name.removesuffix('_s').replace('_', ' ')}"] += value
    return dict(phases)


def _total(rows: list[metrics.Row], name: str) -> float:
    return sum(row.values.get(name, 0.0) for row in rows)


def _facts(session: Session) -> dict[str, str]:
    return {
        "Burnish": __version__,
        "Model": session.recipe.model.name,
        "Compute precision": str(session.loaded.dtype).removeprefix("torch."),
        "Exported checkpoint": session.checkpoint,
        "Seed": str(session.recipe.seed),
        "Processor threads": str(torch.get_num_threads()),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "Python": platform.python_version(),
        "Machine": f"{platform.system()} {platform.machine()}",
        "Isolation of model-written code": session.recipe.sandbox.isolation,
    }


def _table(data: ReportData) -> Table:
    table = Table(title=f"{data.name}: {data.outcome}")
    for heading in ("domain", "before", "after", "change", "paired p"):
        table.add_column(heading, justify="left" if heading == "domain" else "right")
    for name, d in data.domains.items():
        change = f"{d.difference.mean:+.3f}" if d.difference is not None else ""
        table.add_row(
            name, f"{d.before.mean:.3f} [{d.before.low:.3f}, {d.before.high:.3f}]",
            f"{d.after.mean:.3f} [{d.after.low:.3f}, {d.after.high:.3f}]", change, f"{d.paired_p:.2g}",
        )  # fmt: skip
    return table
