"""Commit what has changed (level 0), one of two changed files (1), or on a new branch (2)."""

import shlex
from random import Random

from burnish.domains.terminal.history import START, commit, same, script, write
from burnish.domains.terminal.oracle import shell, submit
from burnish.domains.terminal.pools import NAMES, THINGS, lines
from burnish.domains.terminal.spec import CommandsCheck, TerminalTask

LEVELS = (0, 1, 2)


def make(rng: Random, level: int) -> TerminalTask:
    """Draw a repository with changes that are not committed."""
    names = [f"{thing}.txt" for thing in rng.sample(THINGS, 3)]
    old = {name: lines(*rng.sample(NAMES, 2)) for name in names}
    new = {name: old[name] + lines(rng.choice(NAMES)) for name in names[:2]}
    message = (
        f"{rng.choice(('Add', 'Change', 'Extend', 'Update'))} {names[0].removesuffix('.txt')} {rng.choice(THINGS)}"
    )
    branch = f"{rng.choice(THINGS)}-{rng.randint(1, 99)}"
    quoted = shlex.quote(message)
    checks = [same("g log -1 --format=%s", message), same("g rev-list --count HEAD", "2"),
              same(f"g show HEAD:{names[0]}; echo .", f"{new[names[0]]}.")]  # fmt: skip
    if level == 0:
        told = rng.choice(
            ('Commit all changes with the message "{0}".', 'Make one commit of all changes: "{0}".')
        ).format(message)
        command = f"git commit -qam {quoted}"
        checks.append(same("g status --porcelain --untracked-files=no", ""))
    elif level == 1:
        told = f'Commit only {names[0]}, with the message "{message}". Leave the other changes uncommitted.'
        command = f"git commit -qm {quoted} {names[0]}"
        checks.append(same("g diff-tree --no-commit-id --name-only -r HEAD", names[0]))
        checks.append(same(f"cat {names[1]}; echo .", f"{new[names[1]]}."))
    else:
        told = (
            f'Create a branch {branch} and commit all changes there, with the message "{message}". Leave main as it is.'
        )
        command = f"git checkout -q -b {branch} && git commit -qam {quoted}"
        checks += [same("g rev-parse --abbrev-ref HEAD", branch), same("g rev-list --count main", "1")]
    return TerminalTask(
        family="git_commit",
        level=level,
        instruction=told,
        files=old,
        setup=(*START, commit("Start", 0), write(new)),
        check=CommandsCheck(script=script(*checks), includes_git=True),
        oracle=(shell(command), submit()) if level == 0 else (shell("git status --short"), shell(command), submit()),
        max_steps=8,
        source="git_commit",
    )
