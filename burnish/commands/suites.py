"""What `burnish eval` evaluates on, and `burnish suites list | show | check`.

Without `--suite`, a model that lies in a run folder is evaluated on that run's kinds of task (other
tasks of them, if the seed is another), and any other model on `USUAL`.
"""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

import typer
from rich.table import Table

from burnish.core.recipe import SandboxConfig, TaskEntry
from burnish.core.run_folder import kept_recipe
from burnish.core.types import Json, Task, Verdict
from burnish.core.visible import visible
from burnish.evals import weakness
from burnish.evals.suites import LAYERS, LM_EVAL, OpenSuite, Suite, named, opened, read_suite, shipped
from burnish.rollout.judge import judge_in
from burnish.sandbox import open_box
from burnish.stages.terminal import terminal

USUAL = Suite(
    name="usual",
    tasks=[TaskEntry(domain=name) for name in ("documents", "code", "rg:chain_sum")],
    sandbox=SandboxConfig(when_missing="skip_domains"),
)


def suite_for(model: Path) -> Suite:
    """The tasks of the run that a model folder lies in (`RUN/final`, `RUN/checkpoints/NAME`), or the usual ones."""
    for run in (model, model.parent, model.parent.parent):
        if (run / "recipe.resolved.json").is_file():
            recipe = kept_recipe(run)
            return Suite(
                name=f"tasks of {recipe.name}", when_trained="leave_out", tasks=recipe.tasks, sandbox=recipe.sandbox
            )
    return USUAL


def chosen(model: str, words: Sequence[str], seed: int | None) -> list[Suite]:
    """The suites that are named, else the tasks of the model's run; with another seed they pin no tasks."""
    own = [word for word in words if not word.startswith(LM_EVAL)]
    suites = list(named(own)) if words else [suite_for(Path(model))]
    if seed is None:
        return suites
    return [suite.model_copy(update={"seed": seed, "prompts": ""}) for suite in suites]


def list_suites() -> None:
    """Print the suites that ship, by layer."""
    shown = Table()
    for heading in ("layer", "suite", "what it shows"):
        shown.add_column(heading)
    suites = [read_suite(name) for name in shipped()]
    for suite in sorted(suites, key=lambda suite: (LAYERS.index(suite.layer), suite.name)):
        shown.add_row(suite.layer, suite.name, suite.about)
    terminal().print(shown)


def show_suites(words: list[str], *, as_json: bool) -> None:
    """Print what suites come to: their tasks, and the hash that pins them."""
    rows: list[dict[str, Json]] = []
    for suite in named(words):
        made = opened(suite.model_copy(update={"prompts": ""}))
        rows.append({**suite.model_dump(mode="json"), "num_tasks": len(made.draws), "prompts": made.prompts_hash})
    if as_json:
        typer.echo(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    for row in rows:
        typer.echo(f"{row['name']} ({row['layer']}): {row['about']}")
        typer.echo(f"  {row['num_tasks']} tasks, {row['samples']} replies each, temperature {row['temperature']:g}")
        typer.echo(f'  prompts = "{row["prompts"]}"')


def check_suites(words: list[str], num: int | None, *, as_json: bool) -> int:
    """Print what replies that know nothing earn on suites; 1 if one passes above chance."""
    reports: dict[str, Json] = {}
    is_weak = False
    for suite in named(words):
        found = asyncio.run(_guessed(opened(suite, num)))
        weak = weakness.weak(found, suite.chance)
        is_weak |= bool(weak)
        reports[suite.name] = [dict(each) for each in weakness.as_json(found, suite.chance)]
        if not as_json:
            typer.echo(f"{suite.name}: {'weak' if weak else 'sound'}; chance is {suite.chance:g}, best: {found[0]}")
            for each in weak:
                typer.echo(f"  {visible(str(each))}")
    if as_json:
        typer.echo(json.dumps(reports, indent=2))
    return int(is_weak)


async def _guessed(made: OpenSuite) -> list[weakness.Baseline]:
    sandbox, domains = made.suite.sandbox, {draw.task.id: draw.source.domain for draw in made.draws}
    needs_box = any(domain.executes_code for domain in domains.values())
    isolation, options = (sandbox.isolation, sandbox.options) if needs_box else ("none", {})
    async with open_box(isolation, num_workers=sandbox.num_workers, options=options) as box:
        judge = judge_in(box, num_at_once=sandbox.num_workers)

        async def ask(task: Task, reply: str) -> Verdict:
            return await judge(domains[task.id], task, reply)

        return await weakness.baselines([draw.task for draw in made.draws], ask)
