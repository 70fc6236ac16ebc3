"""What a user named prints as it was written, whatever it is."""

import io

import pytest

from burnish.stages.progress import progress_bar
from burnish.stages.terminal import styled, terminal


@pytest.mark.parametrize("name", ["[/]", "[red]x[/foo]", "jsonl:[a].jsonl", ":smile:"])
def test_a_name_is_no_markup(name: str) -> None:
    console = terminal()
    console.file = io.StringIO()
    console.print(name)
    console.print(styled("  ", (name, "bold")))
    with progress_bar(console) as progress:
        progress.add_task(name, total=1, note=name)
    assert console.file.getvalue().count(name) >= 4
