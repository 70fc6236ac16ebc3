"""What `burnish eval` evaluates on, and `burnish suites list | show`.

Without `--suite`, a model that lies in a run folder is evaluated on that run's kinds of task (other
tasks of them, if the seed is another), and any other model on `USUAL`.
"""

import json
from pathlib import Path

import typer
from rich.table import Table

from burnish.core.recipe import SandboxConfig, TaskEntry
from burnish.core.run_folder import kept_recipe
from burnish.evals.suites import LAYERS, Suite, named, read_suite, shipped
from burnish.stages.eval_suite import open_suite
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
    rows = []
    for suite in named(words):
        opened = open_suite(suite.model_copy(update={"prompts": ""}), "", None, terminal(stderr=True))
        rows.append({**suite.model_dump(mode="json"), "num_tasks": len(opened.draws), "prompts": opened.prompts_hash})
    if as_json:
        typer.echo(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    for row in rows:
        typer.echo(f"{row['name']} ({row['layer']}): {row['about']}")
        typer.echo(f"  {row['num_tasks']} tasks, {row['samples']} replies each, temperature {row['temperature']:g}")
        typer.echo(f'  prompts = "{row["prompts"]}"')
