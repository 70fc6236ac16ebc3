"""A program that lacks a package: install it from a folder of wheels, without a network (level 2), the version that
the program needs where there are two (3)."""

from random import Random

from burnish.domains.terminal.history import same
from burnish.domains.terminal.oracle import shell, submit
from burnish.domains.terminal.pools import CITIES, THINGS, lines
from burnish.domains.terminal.spec import CommandsCheck, TerminalTask
from burnish.domains.terminal.wheels import wheel

LEVELS = (2, 3)
TARGET = "python3 -m pip install -q --no-index --find-links wheels --target lib"


def make(rng: Random, level: int) -> TerminalTask:
    """Draw a package, a program that uses it, and what it says."""
    package, function = f"{rng.choice(THINGS)}{rng.choice(('kit', 'lib', 'tools'))}", f"make_{rng.choice(THINGS)}"
    word = rng.choice(CITIES)
    new = f'def {function}(text):\n    return f"{{text}} from {package}"\n'
    old = new.replace(f"def {function}", f"def old_{function}")
    wheels = [wheel(package, "1.0", old), wheel(package, "2.0", new)] if level == 3 else [wheel(package, "1.0", new)]
    if level == 3:  # the newest is too new: pip alone takes the wrong one
        wheels.append(wheel(package, "3.0", old))
    version = "==2.0" if level == 3 else ""
    told = (
        f"`./run.sh` should print `{word} from {package}`, but fails. Install what main.py needs into the folder lib; "
        "the wheels are in wheels, there is no network."
    )
    looks = "./run.sh; ls wheels" + ("; cat main.py" if level == 3 else "")
    calls = [shell(looks), shell(f"{TARGET} {package}{version}")]
    if level == 3:
        find = f"for v in 1.0 2.0 3.0; do unzip -p wheels/{package}-$v-*.whl {package}.py | grep -n def; done"
        calls.insert(1, shell(find))
    return TerminalTask(
        family="missing_module",
        level=level,
        instruction=told,
        files={
            "main.py": lines(f"from {package} import {function}", "", f"print({function}({word!r}))"),
            "run.sh": lines("#!/bin/bash", "PYTHONPATH=lib:$PYTHONPATH python3 main.py"),
        },
        executable=("run.sh",),
        setup=tuple(wheels),
        protected=("main.py", "run.sh"),
        check=CommandsCheck(script=lines(same("./run.sh", f"{word} from {package}"))),
        oracle=(*calls, shell("./run.sh"), submit()) if level == 3 else (*calls, submit()),
        max_steps=12,
        source="missing_module",
    )
