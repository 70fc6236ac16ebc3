"""`burnish replay`: does an asynchronous run, repeated from its ledger, come to the same weights?"""

import json
from dataclasses import asdict
from pathlib import Path

import typer

from burnish.stages.rl_replay import Repeated, replay


def replay_command(run: Path, *, as_json: bool) -> bool:
    """Repeat the run and say what came of it; returns whether all weights are equal."""
    repeated = replay(run)
    if as_json:
        typer.echo(json.dumps([asdict(one) | {"is_equal": one.is_equal} for one in repeated], indent=2))
    else:
        for one in repeated:
            typer.echo(_told(one))
    return all(one.is_equal for one in repeated)


def _told(one: Repeated) -> str:
    done = f"{one.stage}: {one.num_steps} steps and {one.num_samples} samples repeated"
    if one.is_equal:
        return f"{done}; the weights are equal bit for bit, sha256 {one.hash}"
    return f"{done}; the weights DIFFER: the run's are {one.kept_hash}, the repetition's {one.hash}"
