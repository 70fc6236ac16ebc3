"""`burnish contamination`: what of a recipe, a run or a file stands in evaluation suites."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import typer

from burnish.stages.contamination import indexed, opened_suites, search, tell
from burnish.stages.terminal import terminal
from burnish.stages.train_texts import training_texts


def contamination_command(path: Path, words: Sequence[str], num: int, *, is_fatal: bool, as_json: bool) -> int:
    """Print the overlaps; 1 if there are some and they are fatal."""
    console = terminal(stderr=True)
    index = indexed(opened_suites(words, console))
    found = search(index, training_texts(path, num))
    if as_json:
        rows = [asdict(overlap) for overlap in found.overlaps]
        typer.echo(json.dumps({"num_texts": found.num_texts, "items": index.num_items, "overlaps": rows}, indent=2))
    else:
        tell(found, index, terminal())
    return int(is_fatal and bool(found.overlaps))
