"""Undo a commit: the last one (level 1), one that is named (2), or the one that broke the program (3)."""

import shlex
from random import Random

from burnish.domains.terminal.history import START, commit, same, script, write
from burnish.domains.terminal.oracle import shell, submit
from burnish.domains.terminal.pools import NAMES, THINGS, lines
from burnish.domains.terminal.spec import CommandsCheck, TerminalTask

LEVELS = (1, 2, 3)


def make(rng: Random, level: int) -> TerminalTask:
    """Draw a history of a file for each commit, one of them bad."""
    things = rng.sample(THINGS, 5)
    names = [f"{thing}.txt" for thing in things]
    texts = {name: lines(*rng.sample(NAMES, 2)) for name in names}
    num = {1: 3, 2: 4, 3: 5}[level]
    bad = num - 1 if level == 1 else rng.randrange(1, num - 1)
    setup = [*START, commit("Start", 0)]
    start = {"README": lines(f"Lists of {things[0]} and more.")}
    spoiled = names[0]
    for number in range(num):
        spoils = number == bad
        files = {spoiled: lines("lost")} if spoils else {names[number]: texts[names[number]]}
        setup += [write(files), commit(_subject(rng, things[number], spoils), number + 1)]
    subject = setup[len(START) + 2 * bad + 2].rpartition("-m ")[2]
    (message,) = shlex.split(subject)
    if level == 1:
        told = rng.choice(
            (
                'Revert the last commit, "{0}", with git revert.',
                'The last commit ("{0}") is bad: revert it with git revert.',
            )
        )
        told = told.format(message)
        calls = [shell("git revert --no-edit HEAD")]
    elif level == 2:
        told = f'Revert the commit "{message}" with git revert.'
        calls = [shell("git log --oneline"), shell(f"git revert --no-edit HEAD~{num - 1 - bad}")]
    else:
        listed = " and ".join(texts[spoiled].split())
        told = (
            f"{spoiled} listed {listed}, until a commit replaced that. Find the commit and revert it with git revert."
        )
        calls = [shell(f"git log --oneline -- {spoiled}"), shell(f"git revert --no-edit HEAD~{num - 1 - bad}")]
    checks = [
        same("g log -1 --format=%s", f'Revert "{message}"'),
        same(f"g show HEAD:{spoiled}; echo .", f"{texts[spoiled]}."),
        same("g rev-list --count HEAD", str(num + 2)),
        same("g status --porcelain --untracked-files=no", ""),
    ]
    return TerminalTask(
        family="git_revert",
        level=level,
        instruction=told,
        files=start,
        setup=tuple(setup),
        check=CommandsCheck(script=script(*checks), includes_git=True),
        oracle=(*calls, submit()),
        max_steps=10,
        source="git_revert",
    )


def _subject(rng: Random, thing: str, spoils: bool) -> str:
    if spoils:
        what, whose = rng.choice(("lists", "names", "files")), " and ".join(rng.sample(NAMES, 2))
        return f"{rng.choice(('Tidy', 'Sort', 'Clean'))} {what} of {whose}"
    return f"{rng.choice(('Add', 'Write', 'New list'))} {thing}"
