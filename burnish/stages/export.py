"""Export: `final/`, a plain Hugging Face folder of the weights that the run ends with."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import safe_open
from torch import Tensor

from burnish.core.config import Strict
from burnish.core.errors import ConfigError
from burnish.core.ledger import Ledger
from burnish.core.run_folder import kept_recipe
from burnish.learner.ranked_policy import AnyPolicy
from burnish.models import export as writer
from burnish.models.load import Loaded, load
from burnish.stages.policy import make_policy
from burnish.stages.session import BASE_CHECKPOINT, Session


class Config(Strict):
    """There is nothing to choose."""


def run(session: Session, config: Config) -> dict[str, Any]:
    """Write `final/`."""
    folder = session.folder.path / "final"
    write(session.loaded, session.policy, folder)
    session.console.print(f"Exported checkpoint {session.checkpoint!r} to {folder}")
    return {"folder": str(folder)}


def write(loaded: Loaded, policy: AnyPolicy, folder: Path) -> None:
    """Write the policy's weights, from float32 masters throughout."""
    write_masters(loaded, policy.masters, folder)


def write_masters(loaded: Loaded, masters: Mapping[str, Tensor], folder: Path) -> None:
    """Write weights that were trained from a loaded model; what did not train stays as it was loaded."""
    writer.export(loaded, folder, {**_base_masters(loaded), **masters})


def export(source: Path, out: Path) -> None:
    """Write a Hugging Face folder from a run folder (its newest weights) or one of its checkpoints."""
    if out.exists():
        raise ConfigError(f"{str(out)!r} exists; choose another folder")
    run_folder, checkpoint = located(source)
    recipe = kept_recipe(run_folder)
    loaded = load(recipe.model.name, dtype=recipe.model.dtype)
    policy = make_policy(loaded, recipe.model, recipe.seed)
    policy.load(checkpoint)
    write(loaded, policy, out)


def located(source: Path) -> tuple[Path, Path]:
    """The run folder and the checkpoint that a path means."""
    if (source / "masters.safetensors").exists():
        return source.parent.parent, source
    if not (source / "recipe.resolved.json").exists():
        raise ConfigError(
            f"{str(source)!r} is neither a run folder nor a checkpoint in one; expected for example runs/quickstart"
        )
    return source, source / "checkpoints" / _last_checkpoint(source)


def _last_checkpoint(run_folder: Path) -> str:
    ledger = Ledger(run_folder / "ledger.sqlite")
    results = [ledger.stage_result(position) or {} for position in range(len(kept_recipe(run_folder).stages))]
    ledger.close()
    return next((r["checkpoint"] for r in reversed(results) if "checkpoint" in r), BASE_CHECKPOINT)


def _base_masters(loaded: Loaded) -> Mapping[str, Tensor]:
    if loaded.master_folder is None:
        return {}
    weights: dict[str, Tensor] = {}
    for file in sorted(loaded.master_folder.glob("*.safetensors")):
        with safe_open(file, framework="pt") as opened:
            weights.update({name: opened.get_tensor(name) for name in opened.keys()})  # noqa: SIM118  it is no dict
    return weights
