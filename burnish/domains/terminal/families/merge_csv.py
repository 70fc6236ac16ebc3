"""Two tables of one form into one (level 1), a table sorted by a column (2), or two tables joined by a key (3)."""

from collections.abc import Sequence
from random import Random

from burnish.domains.terminal.ended import chore
from burnish.domains.terminal.oracle import create, shell
from burnish.domains.terminal.pools import CITIES, FOLDERS, NAMES, THINGS, lines
from burnish.domains.terminal.spec import TerminalTask

LEVELS = (1, 2, 3)
Row = Sequence[str]


def make(rng: Random, level: int) -> TerminalTask:
    """Draw tables of people."""
    names = rng.sample(NAMES, 6)
    bought = [(name, rng.choice(THINGS), str(rng.randint(10, 99))) for name in names]
    first, second, target = (f"{name}.csv" for name in rng.sample(FOLDERS + CITIES, 3))
    if level == 1:
        files = {first: _table(bought[:3]), second: _table(bought[3:])}
        told = f"Append the rows of {second} to those of {first} and write all to {target}, with the header once."
        command = f"cat {first} > {target} && tail -n +2 {second} >> {target}"
        return chore("merge_csv", 1, told, files, {target: _table(bought)}, [shell(command)])
    if level == 2:
        files = {first: _table(bought)}
        told = f"Write the rows of {first} to {target}, sorted by name, the header first."
        command = f"head -n 1 {first} > {target} && tail -n +2 {first} | sort >> {target}"
        return chore("merge_csv", 2, told, files, {target: _table(sorted(bought))}, [shell(command)])
    cities = {name: rng.choice(CITIES) for name in rng.sample(names, 4)}
    files = {first: _table(bought), second: lines("name,city", *(f"{name},{city}" for name, city in cities.items()))}
    joined = [(*row, cities[row[0]]) for row in bought if row[0] in cities]
    told = (
        f"Join {first} and {second} by name into {target}: the columns of {first}, then city. "
        f"Keep the order of {first}, and only names that are in both."
    )
    expected = lines("name,item,price,city", *map(",".join, joined))
    calls = [
        shell(f"head -n 2 {first} {second}"),
        create("join.py", _program(first, second, target)),
        shell("python3 join.py"),
    ]
    return chore("merge_csv", 3, told, files, {target: expected}, [*calls, shell(f"cat {target}")])


def _table(rows: Sequence[Row]) -> str:
    return lines("name,item,price", *map(",".join, rows))


def _program(first: str, second: str, target: str) -> str:
    return lines(
        "import csv",
        "",
        f"cities = dict(list(csv.reader(open({second!r})))[1:])",
        f"header, *rows = csv.reader(open({first!r}))",
        f"with open({target!r}, 'w') as out:",
        "    writer = csv.writer(out, lineterminator='\\n')",
        "    writer.writerow([*header, 'city'])",
        "    writer.writerows([*row, cities[row[0]]] for row in rows if row[0] in cities)",
    )
