"""Before training: do the recipe's training tasks hold what evaluation suites ask?

    [[stages]]
    use = "contamination"
    suites = ["regression", "bfcl"]
    when_found = "refuse"

The check is `evals.contamination`'s; the stage's result keeps each overlap. Without `suites`, all that ship and whose
packages are installed. Not covered: what stages read from files (`burnish contamination FILE`).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any, Literal, NamedTuple

from pydantic import Field
from rich.console import Console

from burnish.core.config import Strict
from burnish.core.errors import ConfigError
from burnish.evals.contamination import Index, Overlap
from burnish.evals.suites import OpenSuite, Suite, named, read_suite, shipped
from burnish.stages.eval_suite import open_suite
from burnish.stages.session import Session
from burnish.stages.train_texts import Text, of_recipe, texts_of

MOST_KEPT = 1000


class Config(Strict):
    """Options of the stage."""

    suites: list[str] = []
    """Suites, layers or files; empty: all that ship and can be opened here."""
    num: int = Field(default=1000, ge=1)
    """How many tasks of each source without end, for each stage that trains."""
    when_found: Literal["report", "refuse"] = "report"


class Searched(NamedTuple):
    """How many texts were looked at, and which overlap."""

    num_texts: int
    overlaps: list[Overlap]


def check_data(config: Config, held_out_prompts: frozenset[str]) -> None:
    """The suites that are named exist."""
    list(named(config.suites))


def run(session: Session, config: Config) -> dict[str, Any]:
    """Look the recipe's training tasks up in the index of the suites."""
    index = indexed(opened_suites(config.suites, session.console))
    found = search(index, of_recipe(session.recipe, config.num))
    tell(found, index, session.console)
    if found.overlaps and config.when_found == "refuse":
        raise ConfigError(f"{len(found.overlaps)} training texts overlap suites: {say(found.overlaps[0])}")
    kept = [asdict(overlap) for overlap in found.overlaps[:MOST_KEPT]]
    return {"num_texts": found.num_texts, "num_overlaps": len(found.overlaps), "overlaps": kept}


def opened_suites(words: Sequence[str], console: Console) -> Iterator[OpenSuite]:
    """The suites that are named, else all that ship; of those, one whose package is missing is said and passed over."""
    if words:
        yield from (open_suite(suite, "", None, console) for suite in named(words))
        return
    for suite in map(read_suite, shipped()):
        if (opened := _opened(suite, console)) is not None:
            yield opened


def _opened(suite: Suite, console: Console) -> OpenSuite | None:
    try:
        return open_suite(suite, "", None, console)
    except ConfigError as error:
        console.print(f"suite {suite.name} is left out: {error}", style="yellow")
        return None


def indexed(suites: Iterable[OpenSuite]) -> Index:
    """An index of suites: those that only ever evaluate come first."""
    index = Index()
    for opened in sorted(suites, key=lambda opened: not only_evaluates(opened)):
        for draw in opened.draws:
            index.add(opened.suite.name, draw.task.id, [text.text for text in texts_of(draw.task)])
    return index


def only_evaluates(opened: OpenSuite) -> bool:
    """Whether no domain of a suite has training tasks."""
    return all(source.domain.size("train") == 0 for source in opened.sources)


def search(index: Index, texts: Iterable[Text]) -> Searched:
    """Look texts up, each once."""
    seen: set[str] = set()
    overlaps: list[Overlap] = []
    for name, text in texts:
        if text not in seen:
            seen.add(text)
            overlaps += index.overlaps(name, text)
    return Searched(len(seen), overlaps)


def tell(found: Searched, index: Index, console: Console) -> None:
    """Say of each suite how many of its items are overlapped, with one example."""
    console.print(f"{found.num_texts} training texts against {sum(index.num_items.values())} items:")
    for suite, num_items in index.num_items.items():
        own = [overlap for overlap in found.overlaps if overlap.suite == suite]
        items = len({overlap.item for overlap in own})
        console.print(f"  {suite}: {items} of {num_items} items overlap {len(own)} texts", highlight=False)
        if own:
            console.print(f"    {say(own[0])}", markup=False, highlight=False)


def say(overlap: Overlap) -> str:
    """An overlap in a line."""
    return f"{overlap.text} and {overlap.item} share {overlap.kind}: {overlap.excerpt!r}"
