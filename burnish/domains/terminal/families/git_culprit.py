"""Which commit broke the check: its subject goes to a file. Few commits (level 3), or many, so that one bisects (4)."""

from random import Random

from burnish.domains.terminal.history import START, commit, write
from burnish.domains.terminal.oracle import shell, submit
from burnish.domains.terminal.planted import MODULES, module_text, plain, plant, tests_text
from burnish.domains.terminal.pools import CITIES, NAMES
from burnish.domains.terminal.spec import EndStateCheck, TerminalTask
from burnish.rewards.end_state import ExpectedFile

LEVELS = (3, 4)


def make(rng: Random, level: int) -> TerminalTask:
    """Draw a module that grows by functions, and the commit in which one of them went wrong."""
    planted, name = plant(rng), rng.choice(MODULES)
    num = 5 if level == 3 else 12
    taken = [planted.problem.function]
    others: list[str] = []
    for _ in range(num - 1):
        other = plain(rng, taken)
        taken.append(other.function)
        others.append(other.solution)
    bad = rng.randrange(1, num - 1)
    check = tests_text(name, [(planted.problem, planted.failing[:2])])
    states = [
        module_text([planted.problem.solution if number < bad else planted.faulty, *others[:number]])
        for number in range(num)
    ]
    subjects = [f"{rng.choice(('Work on', 'Add to', 'Extend', 'Improve'))} {name} for {rng.choice(CITIES)}, by "
                f"{by}" for by in rng.sample(NAMES, num)]  # fmt: skip
    path, answer = f"{name}.py", "answer.txt"
    setup = [*START, commit(subjects[0], 0)]
    for number in range(1, num):
        setup += [write({path: states[number]}), commit(subjects[number], number)]
    test = f"python3 -m pytest -q test_{name}.py"
    find = (
        f"git bisect start HEAD HEAD~{num - 1} > /dev/null && git bisect run {test} | tail -n 3; "
        f"git log -1 --format=%s refs/bisect/bad > {answer}; git bisect reset 2> /dev/null; cat {answer}"
    )
    return TerminalTask(
        family="git_culprit",
        level=level,
        instruction=f'`{test}` passed in the first commit, "{subjects[0]}", and fails now. Which commit broke it? '
        f"Write the first line of its message to {answer}. Do not change the code.",
        files={path: states[0], f"test_{name}.py": check},
        setup=tuple(setup),
        protected=("test_*.py",),
        check=EndStateCheck(
            expected=(
                ExpectedFile(name=answer, content=f"{subjects[bad]}\n".encode()),
                ExpectedFile(name=path, content=states[-1].encode()),
            )
        ),
        oracle=(shell(f"{test} --tb=line; git log --oneline"), shell(find), submit()),
        max_steps=16,
        source="git_culprit",
        tags=(planted.kind,),
    )
