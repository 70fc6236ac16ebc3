"""Progress bars of stages."""

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


def progress_bar(console: Console) -> Progress:
    """A bar with the latest numbers beside it (the field `note`)."""
    return Progress(
        TextColumn("{task.description:<16}", markup=False), BarColumn(bar_width=24), MofNCompleteColumn(),
        TimeElapsedColumn(), TimeRemainingColumn(), TextColumn("{task.fields[note]}", markup=False), console=console,
    )  # fmt: skip
