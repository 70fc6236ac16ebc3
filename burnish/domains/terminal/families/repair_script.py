"""A script that does not start: no permission (level 0), a wrong first line (1), or a wrong path within (2)."""

from random import Random

from burnish.domains.terminal.history import same
from burnish.domains.terminal.oracle import replace, shell, submit
from burnish.domains.terminal.pools import CITIES, FOLDERS, THINGS, lines
from burnish.domains.terminal.spec import CommandsCheck, TerminalTask

LEVELS = (0, 1, 2)
WRONG = ("#!/usr/bin/bsh", "#!/bin/bahs", "#!/usr/local/bin/bash4", "#!bash")


def make(rng: Random, level: int) -> TerminalTask:
    """Draw a script that prints a line, and what hinders it."""
    name, folder = f"{rng.choice(THINGS)}.sh", rng.choice(FOLDERS)
    data = f"{folder}/{rng.choice(THINGS)}.txt"
    text = lines(*rng.sample(CITIES, 2))
    wrong_data = f"{rng.choice([one for one in FOLDERS if one != folder])}/{data.rpartition('/')[2]}"
    first, reads = "#!/bin/bash", data
    if level == 1:
        first = rng.choice(WRONG)
    elif level == 2:
        reads = wrong_data
    body = (f"echo {rng.choice(('start', 'list', 'report'))}", f"cat {reads}")
    told = rng.choice(
        (
            "./{0} should print a list of cities from {1} on, but fails. Repair it.",
            "Running ./{0} should end with cities, {1} first. Make it work.",
        )
    )
    repair = {
        0: [shell(f"chmod +x {name}")],
        1: [shell(f"./{name}; cat {name}"), replace(name, f"{first}\n", "#!/bin/bash\n")],
        2: [
            shell(f"./{name}; find . -name '*.txt'; cat {name}"),
            replace(name, f"cat {wrong_data}\n", f"cat {data}\n"),
        ],
    }[level]
    printed = f"{body[0].removeprefix('echo ')}\n{text}"
    return TerminalTask(
        family="repair_script",
        level=level,
        instruction=told.format(name, text.split()[0]),
        files={name: lines(first, *body), data: text},
        executable=(name,) if level else (),
        protected=(data,),
        check=CommandsCheck(script=lines(same(f"./{name}; echo .", f"{printed}."))),
        oracle=(*repair, submit()),
        max_steps=8,
        source="repair_script",
    )
