"""Lines with a word (level 0), lines without it and sorted (1), or one column of a table (2), into another file."""

from random import Random

from burnish.domains.terminal.ended import chore
from burnish.domains.terminal.oracle import shell
from burnish.domains.terminal.pools import CITIES, FOLDERS, NAMES, THINGS, lines
from burnish.domains.terminal.spec import TerminalTask

LEVELS = (0, 1, 2)


def make(rng: Random, level: int) -> TerminalTask:
    """Draw a list of people, what they bought and where."""
    source, target = (f"{name}.txt" for name in rng.sample(FOLDERS + THINGS, 2))
    cities = rng.sample(CITIES, 3)
    rows = [(name, rng.choice(THINGS), rng.choice(cities)) for name in rng.sample(NAMES, 7)]
    word = rows[0][2]
    if level == 2:
        column = rng.randrange(1, 4)
        files = {source: lines(*map(",".join, rows))}
        told = rng.choice(("Write column {0} of {1} to {2}.", "Put the values of column {0} of {1} into {2}."))
        told = f"{told.format(column, source, target)} Columns are separated by commas."
        expected, command = lines(*(row[column - 1] for row in rows)), f"cut -d, -f{column} {source} > {target}"
    else:
        texts = [" ".join(row) for row in rows]
        files = {source: lines(*texts)}
        with_word = [text for text in texts if word in text]
        if level == 0:
            told = rng.choice(
                ('Write the lines of {0} that contain "{1}" to {2}.', 'Copy all lines with "{1}" from {0} to {2}.')
            )
            expected, command = lines(*with_word), f"grep {word} {source} > {target}"
        else:
            told = rng.choice(
                (
                    'Write the lines of {0} without "{1}" to {2}, sorted.',
                    'Sort the lines of {0}, drop those with "{1}", and write the rest to {2}.',
                )
            )
            expected = lines(*sorted(text for text in texts if text not in with_word))
            command = f"grep -v {word} {source} | sort > {target}"
        told = told.format(source, word, target)
    return chore("extract_lines", level, told, files, {target: expected}, [shell(command)])
