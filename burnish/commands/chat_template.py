"""`burnish chat-template check`: what a model's tokenizer and chat template keep, as a table."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import cast

import typer
from rich.table import Table

from burnish.chat.prover import Proof, prove
from burnish.chat.rendering import Tokenizer
from burnish.core.visible import visible
from burnish.models.load import load_tokenizer
from burnish.stages.terminal import terminal


def check_template(model: str, *, as_json: bool) -> int:
    """Print a row for each property; 1 if one fails, else 0."""
    proofs = prove(cast(Tokenizer, load_tokenizer(model)))  # transformers declares `eos_token_id` nowhere
    if as_json:
        typer.echo(json.dumps([asdict(proof) for proof in proofs], indent=2))
    else:
        terminal().print(_table(model, proofs))
    return 1 if any(proof.outcome == "fails" for proof in proofs) else 0


def _table(model: str, proofs: Sequence[Proof]) -> Table:
    table = Table(title=f"chat template of {model}")
    for heading in ("property", "outcome", "evidence"):
        table.add_column(heading)
    for proof in proofs:
        table.add_row(proof.claim, proof.outcome, visible(proof.evidence))
    return table
