"""A word for another: in one file (level 0), in all files of a folder (1), or one value of a settings file (2)."""

from random import Random

from burnish.domains.terminal.ended import chore
from burnish.domains.terminal.oracle import replace, shell
from burnish.domains.terminal.pools import CITIES, FOLDERS, NAMES, THINGS, lines
from burnish.domains.terminal.spec import TerminalTask

LEVELS = (0, 1, 2)


def make(rng: Random, level: int) -> TerminalTask:
    """Draw texts in which a name occurs, and the name that it should be."""
    old, new = rng.sample(NAMES, 2)
    if level == 2:
        return _setting(rng)
    folder = rng.choice(FOLDERS)
    names = [f"{thing}.txt" for thing in rng.sample(THINGS, 3)]
    files = {f"{folder}/{name}" if level else name: _letter(rng, old) for name in names}
    if level == 0:
        path = names[0]
        told = rng.choice(("Replace {0} by {1} in {2}.", "In {2}, change every {0} to {1}."))
        expected, command = {path: files[path].replace(old, new)}, f"sed -i 's/{old}/{new}/g' {path}"
        told = told.format(old, new, path)
    else:
        told = rng.choice(("Replace {0} by {1} in all files of {2}.", "In every file in {2}, {0} should be {1}."))
        expected = {name: text.replace(old, new) for name, text in files.items()}
        told, command = told.format(old, new, folder), f"sed -i 's/{old}/{new}/g' {folder}/*"
    return chore("replace_text", level, told, files, expected, [shell(command)])


def _letter(rng: Random, name: str) -> str:
    things = rng.sample(THINGS, 2)
    return lines(
        f"dear {name},", f"the {things[0]} from {rng.choice(CITIES)} is here.", f"bring a {things[1]}, {name}."
    )


def _setting(rng: Random) -> TerminalTask:
    keys = rng.sample(("port", "workers", "retries", "timeout", "depth", "width", "limit"), 4)
    values = {key: rng.randint(2, 99) for key in keys}
    key, value = keys[rng.randrange(4)], rng.randint(100, 999)
    path = f"{rng.choice(THINGS)}.conf"
    files = {path: lines(*(f"{name} = {number}" for name, number in values.items()))}
    told = rng.choice(("Set {0} to {1} in {2}.", "In {2}, the {0} should be {1}.")).format(key, value, path)
    expected = lines(*(f"{name} = {number}" for name, number in (values | {key: value}).items()))
    calls = [shell(f"cat {path}"), replace(path, f"{key} = {values[key]}\n", f"{key} = {value}\n")]
    return chore("replace_text", 2, told, files, {path: expected}, calls)
