"""Rename one file (level 0), change an ending (1), or put files into folders by a rule (2)."""

from random import Random

from burnish.domains.terminal.ended import chore
from burnish.domains.terminal.oracle import shell
from burnish.domains.terminal.pools import CITIES, FOLDERS, THINGS, lines
from burnish.domains.terminal.spec import TerminalTask

LEVELS = (0, 1, 2)
ENDINGS = ("txt", "md", "log", "csv", "dat")


def make(rng: Random, level: int) -> TerminalTask:
    """Draw a folder, and what is to move where."""
    folder, names, (old, new) = rng.choice(FOLDERS + CITIES), rng.sample(THINGS, 5), rng.sample(ENDINGS, 2)
    texts = [lines(*rng.sample(THINGS, 2)) for _ in names]
    if level == 0:
        files = {f"{name}.{old}": text for name, text in zip(names[:3], texts, strict=False)}
        asked = rng.choice(("Rename {0} to {1}.", "The file {0} should be called {1}.", "Move {0} to {1}."))
        source, target = f"{names[0]}.{old}", f"{names[3]}.{old}"
        moves, told, command = {source: target}, asked.format(source, target), f"mv {source} {target}"
    elif level == 1:
        files = {f"{folder}/{name}.{old if at < 3 else new}": text
                 for at, (name, text) in enumerate(zip(names[:4], texts, strict=False))}  # fmt: skip
        moves = {name: f"{name.removesuffix(old)}{new}" for name in files if name.endswith(f".{old}")}
        asked = rng.choice(
            ("Rename every .{0} file in {2} to .{1}.", "In the folder {2}, change the ending .{0} to .{1}.")
        )
        told = asked.format(old, new, folder)
        command = f'for f in {folder}/*.{old}; do mv "$f" "${{f%.{old}}}.{new}"; done'
    else:
        files = {f"{name}.{rng.choice((old, new))}": text for name, text in zip(names, texts, strict=True)}
        moves = {name: f"{folder}/{name}" for name in files if name.endswith(f".{old}")} or {
            name: f"{folder}/{name}" for name in files
        }
        ending = next(iter(moves)).rpartition(".")[2]
        told = rng.choice(
            ("Move all .{0} files into a new folder {1}.", "Make a folder {1} and put the .{0} files there.")
        )
        told, command = told.format(ending, folder), f"mkdir -p {folder} && mv *.{ending} {folder}/"
    expected = dict.fromkeys(moves) | {target: files[source] for source, target in moves.items()}
    return chore("rename_files", level, told, files, expected, [shell(command)])
