"""Lists put in order: sorted (level 0), without repeats (1), or the commonest line of all (2). Held out of training."""

from collections import Counter
from random import Random

from burnish.domains.terminal.ended import chore
from burnish.domains.terminal.oracle import shell
from burnish.domains.terminal.pools import CITIES, NAMES, THINGS, lines
from burnish.domains.terminal.spec import TerminalTask

LEVELS = (0, 1, 2)


def make(rng: Random, level: int) -> TerminalTask:
    """Draw a list, and what is to be made of it."""
    source, target = (f"{name}.txt" for name in rng.sample(NAMES, 2))
    pool = rng.choice((CITIES, THINGS))
    if level == 0:
        words = rng.sample(pool, 6)
        told = rng.choice(("Sort the lines of {0} and write them to {1}.", "Write {0} in alphabetical order to {1}."))
        expected, command = lines(*sorted(words)), f"sort {source} > {target}"
    else:
        few = rng.sample(pool, 4)
        words = [*few, *(rng.choice(few) for _ in range(6))]
        rng.shuffle(words)
        if level == 1:
            told = rng.choice(("Write each line of {0} once to {1}, sorted.", "Sort {0}, drop repeats, write to {1}."))
            expected, command = lines(*sorted(set(words))), f"sort -u {source} > {target}"
        else:
            winner = few[0]
            words += [winner] * (max(Counter(words).values()) - words.count(winner) + 1)
            told = rng.choice(
                ("Write the most frequent line of {0} to {1}.", "Which line occurs most in {0}? Write it to {1}.")
            )
            expected = lines(winner)
            command = f"sort {source} | uniq -c | sort -rn | head -n 1 | awk '{{print $2}}' > {target}"
    return chore(
        "sort_lines", level, told.format(source, target), {source: lines(*words)}, {target: expected}, [shell(command)]
    )
