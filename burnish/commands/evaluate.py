"""`burnish eval`: evaluate a model, and print a table or JSON."""

import json
from collections.abc import Mapping
from typing import Any

import typer
from rich.table import Table

from burnish.core.recipe import Suite
from burnish.stages.evaluate import evaluate_model
from burnish.stages.terminal import terminal


def evaluate_command(model: str, suite: Suite, seed: int, num: int | None, as_json: bool) -> None:
    """Evaluate and print."""
    result = evaluate_model(model, suite, seed, num)
    if as_json:
        typer.echo(json.dumps(result, indent=2, ensure_ascii=False))
    else:
        terminal().print(_table(model, result["domains"]))


def _table(model: str, domains: Mapping[str, Mapping[str, Any]]) -> Table:
    table = Table(title=model)
    for heading in ("domain", "mean", "95 % interval", "tasks"):
        table.add_column(heading, justify="left" if heading == "domain" else "right")
    for name, row in domains.items():
        table.add_row(name, f"{row['mean']:.3f}", f"{row['low']:.3f} to {row['high']:.3f}", str(row["n"]))
    return table
