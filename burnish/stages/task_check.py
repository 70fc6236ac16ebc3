"""No task set trains before it has held to the canon (`burnish.evals.canon`), in brief.

Two training tasks of each source get gold, nothing, junk, their own prompt, conflicts and the short list of hostile
replies. A source that fails is refused, unless its entry in the recipe says `when_check_fails = "train_anyway"`;
then the faults are shown and the run goes on. Sources without gold are checked for all that needs none.

Decisions: what held is noted under `$BURNISH_CACHE` (else `~/.cache/burnish`), `checked/`, by the hash of domain,
options, those tasks, isolation, the text of all domains and verifiers, and the versions of the packages that judge;
so it is paid once. A failure is never noted. Not covered: tasks other than those two (`burnish tasks check` takes
many), a plugin of yours that changes in a file other than its own.
"""

import asyncio
import hashlib
import importlib
import os
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.text import Text

from burnish.core.errors import ConfigError
from burnish.core.recipe import Recipe
from burnish.core.types import Isolation, Task, sha256_json
from burnish.domains import Domain, open_domain
from burnish.evals import canon
from burnish.evals.canon import Extent, Proof
from burnish.rollout.judge import Judge, judge_in
from burnish.rollout.mixture import Source
from burnish.sandbox import open_box

NUM_TASKS = 2
BRIEF = Extent(num_attacked=NUM_TASKS, is_brief=True)
JUDGING_PACKAGES = ("reasoning-gym", "google-re2", "math-verify", "sympy")
CODE = ("domains", "rewards", "evals")


class Unproven(NamedTuple):
    """A source that is not known to hold, its training tasks, and where to note that it does."""

    source: Source
    tasks: list[Task]
    note: Path


def refuse_unproven(recipe: Recipe, sources: Sequence[Source], console: Console) -> None:
    """Raise `ConfigError` for the first source that fails and is not forced by name."""
    unproven = [one for source in sources if not (one := _look_up(recipe, source)).note.exists()]
    if not unproven:
        return
    for one, proofs in asyncio.run(_prove(recipe, unproven)):
        faults = [f"{proof.claim}: not so for {proof.against[0]}" for proof in proofs if proof.against]
        if not faults:
            _write_note(one)
        elif one.source.entry.when_check_fails == "refuse":
            raise ConfigError(_refusal(one.source, faults))
        else:
            console.print(Text(f"{one.source.entry.domain} fails its check, and trains all the same: {faults[0]}"))


def _refusal(source: Source, faults: Sequence[str]) -> str:
    name = source.entry.domain
    return (
        f"tasks {name!r} fail their check ({len(faults)} claims), so training on them would pay for the wrong thing: "
        f"{faults[0]}. See `burnish tasks check {name}`; put it right, or force it by "
        'when_check_fails = "train_anyway" in its [[tasks]] entry'
    )


def _look_up(recipe: Recipe, source: Source) -> Unproven:
    entry = source.entry
    tasks = _drawn(source.domain, recipe.seed)
    hashes = [task.content_hash for task in tasks]
    key = [entry.domain, entry.options, hashes, recipe.sandbox.isolation, _code(entry.domain)]
    return Unproven(source, tasks, _cache() / f"{sha256_json(key)}.txt")


def _drawn(domain: Domain, seed: int) -> list[Task]:
    """The tasks that are tried: of the first few, two with different gold."""
    return canon.apart(canon.draw(domain, "train", seed, 4 * NUM_TASKS), NUM_TASKS)


def _cache() -> Path:
    root = os.environ.get("BURNISH_CACHE")
    return (Path(root) if root else Path.home() / ".cache" / "burnish") / "checked"


def _write_note(one: Unproven) -> None:
    with suppress(OSError):  # a cache that cannot be written costs time, no more
        one.note.parent.mkdir(parents=True, exist_ok=True)
        one.note.write_text(f"{one.source.entry.domain} held to the canon\n", encoding="utf-8")


def _code(domain: str) -> str:
    """A hash of all that judges: our text, a plugin's own file, the versions of packages."""
    root = Path(canon.__file__).parent.parent
    files = [path for folder in CODE for path in sorted((root / folder).rglob("*.py"))]
    plugin = domain.partition(":")[0]
    if "." in plugin:
        files.append(Path(importlib.import_module(plugin).__file__ or ""))
    digest = hashlib.sha256(" ".join(map(_version, JUDGING_PACKAGES)).encode())
    for path in files:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "absent"


async def _prove(recipe: Recipe, unproven: Sequence[Unproven]) -> list[tuple[Unproven, list[Proof]]]:
    async with AsyncExitStack() as stack:
        needs_box = any(one.source.domain.executes_code for one in unproven)
        isolation = recipe.sandbox.isolation if needs_box else "none"
        num_workers = recipe.sandbox.num_workers
        box = await stack.enter_async_context(open_box(isolation, num_workers=num_workers))
        judge = judge_in(box, num_at_once=num_workers)
        return [(one, [_same_again(recipe, one), *await _judged(one, judge, isolation)]) for one in unproven]


async def _judged(one: Unproven, judge: Judge, isolation: Isolation) -> list[Proof]:
    domain = one.source.domain
    extent = replace(BRIEF, is_isolated=isolation != "none", is_local=canon.is_local(domain, isolation))
    return await canon.on_verdicts(domain, {"train": one.tasks, "eval": []}, judge, extent)


def _same_again(recipe: Recipe, one: Unproven) -> Proof:
    entry = one.source.entry
    again = _drawn(open_domain(entry.domain, entry.options), recipe.seed)
    against = [a.id for a, b in zip(one.tasks, again, strict=False) if a != b]
    return Proof(split="train", claim="equal seeds, equal tasks", num_tried=len(one.tasks), against=tuple(against))
