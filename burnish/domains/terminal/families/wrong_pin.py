"""A requirements file with a pin that does not fit: no such wheel (level 3), or one that lacks what is used (4).

Held out of training.
"""

from random import Random

from burnish.domains.terminal.history import same
from burnish.domains.terminal.oracle import replace, shell, submit
from burnish.domains.terminal.pools import CITIES, THINGS, lines
from burnish.domains.terminal.spec import CommandsCheck, TerminalTask
from burnish.domains.terminal.wheels import wheel

LEVELS = (3, 4)


def make(rng: Random, level: int) -> TerminalTask:
    """Draw two packages, one of them pinned to a wrong version."""
    first, second = (f"{thing}{rng.choice(('kit', 'lib', 'tools'))}" for thing in rng.sample(THINGS, 2))
    word, function = rng.choice(CITIES), f"make_{rng.choice(THINGS)}"
    right = f"{rng.randint(1, 3)}.{rng.randint(1, 9)}"
    wrong = f"{int(right[0]) + 1}.0"
    code = f'def {function}(text):\n    return f"{{text}} by {second}"\n'
    wheels = [wheel(first, "1.0", "def say(text):\n    print(text)\n"), wheel(second, right, code)]
    if level == 4:
        wheels.append(wheel(second, wrong, code.replace(function, f"{function}_now")))
    pins = [f"{first}==1.0", f"{second}=={wrong}"]
    rng.shuffle(pins)
    return TerminalTask(
        family="wrong_pin",
        level=level,
        instruction=f"`./run.sh` should print `{word} by {second}`, but fails. Repair requirements.txt, "
        "and only that file; the wheels are in wheels, there is no "
        "network.",
        files={
            "requirements.txt": lines(*pins),
            "main.py": lines(f"from {first} import say", f"from {second} import {function}", "",
                             f"say({function}({word!r}))"),
            "run.sh": lines(
                "#!/bin/bash",
                "set -e",
                "rm -rf /tmp/lib",
                "python3 -m pip install -q --no-index --find-links wheels --target /tmp/lib -r requirements.txt",
                "PYTHONPATH=/tmp/lib:$PYTHONPATH python3 main.py",
            ),
        },
        executable=("run.sh",),
        setup=tuple(wheels),
        protected=("main.py", "run.sh"),
        check=CommandsCheck(script=lines(same("./run.sh", f"{word} by {second}"))),
        oracle=(
            shell("./run.sh; ls wheels; cat requirements.txt"),
            replace("requirements.txt", f"{second}=={wrong}", f"{second}=={right}"),
            shell("./run.sh"),
            submit(),
        ),
        max_steps=12,
        source="wrong_pin",
    )  # fmt: skip
