"""Merge a branch that conflicts: keep one side (level 2) or the lines of both (3). Held out of training."""

from random import Random

from burnish.domains.terminal.history import START, commit, same, script, write
from burnish.domains.terminal.oracle import create, shell, submit
from burnish.domains.terminal.pools import CITIES, NAMES, THINGS, lines
from burnish.domains.terminal.spec import CommandsCheck, TerminalTask

LEVELS = (2, 3)


def make(rng: Random, level: int) -> TerminalTask:
    """Draw two branches that add another line at the same place."""
    path, branch = f"{rng.choice(THINGS)}.txt", rng.choice(CITIES)
    head, ours, theirs, tail = rng.sample(NAMES, 4)
    start = {path: lines(head, tail)}
    ours_text, theirs_text = lines(head, ours, tail), lines(head, theirs, tail)
    there = (f"git checkout -q -b {branch}", write({path: theirs_text}), commit(f"Add {theirs}", 1))
    here = ("git checkout -q main", write({path: ours_text}), commit(f"Add {ours}", 2))
    asked = f"Merge the branch {branch} into main. Where {path} conflicts,"
    if level == 2:
        keeps_ours = rng.random() < 0.5
        side, text = ("main", ours_text) if keeps_ours else (branch, theirs_text)
        told = f"{asked} keep the version of {side}. Commit the merge."
        option = "ours" if keeps_ours else "theirs"
        calls = [shell(f"git merge {branch}"), shell(f"git checkout --{option} {path} && git commit -qam merge")]
    else:
        text = lines(head, ours, theirs, tail)
        told = f"{asked} keep both lines, that of main first. Commit the merge."
        calls = [shell(f"git merge {branch}; cat {path}"), create(path, text), shell("git commit -qam merge")]
    checks = [
        same("g rev-parse --abbrev-ref HEAD", "main"),
        f"g merge-base --is-ancestor {branch} HEAD",
        same(f"g show HEAD:{path}; echo .", f"{text}."),
        same("g status --porcelain --untracked-files=no", ""),
    ]
    return TerminalTask(
        family="git_conflict",
        level=level,
        instruction=told,
        files=start,
        setup=(*START, commit("Start", 0), *there, *here),
        check=CommandsCheck(script=script(*checks), includes_git=True),
        oracle=(*calls, submit()),
        max_steps=12,
        source="git_conflict",
    )
