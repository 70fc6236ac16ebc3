"""What `burnish eval` evaluates on.

Without `--suite`, a model that lies in a run folder is evaluated on that run's kinds of task (other
tasks of them, if the seed is another), and any other model on `USUAL`.
"""

from pathlib import Path

from burnish.core.config import read_toml, validate
from burnish.core.recipe import SandboxConfig, Suite, TaskEntry
from burnish.core.run_folder import kept_recipe

USUAL = Suite(
    tasks=[TaskEntry(domain=name) for name in ("documents", "code", "rg:chain_sum")],
    sandbox=SandboxConfig(when_missing="skip_domains"),
)


def read_suite(path: Path) -> Suite:
    """Read a suite from a TOML file."""
    return validate(Suite, read_toml(path), str(path))


def suite_for(model: Path) -> Suite:
    """The tasks of the run that a model folder lies in (`RUN/final`, `RUN/checkpoints/NAME`), or the usual ones."""
    for run in (model, model.parent, model.parent.parent):
        if (run / "recipe.resolved.json").is_file():
            recipe = kept_recipe(run)
            return Suite(tasks=recipe.tasks, sandbox=recipe.sandbox)
    return USUAL
