"""A Harbor or terminal-bench task as a terminal task that runs in a place of this host, where it can.

Decisions: a place has one folder of its own, `/work`. So the paths of the format are moved where a text names them:
the working folder to `/work`, `/tests`, `/logs` and `/solution` below `/tmp/harbor`; nothing else of a text changes.
The Dockerfile's copies are the task's files and its other commands the setup. The verdict lays the tests out, runs
them as the format says, and reads both reward files (`data/harbor_reward.py`); solved is a reward of 1, and two that
disagree are no solution. A task that needs an image, a network or another service is refused with the reason.
"""

import base64
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from burnish.core.errors import ConfigError
from burnish.data import harbor, harbor_reward
from burnish.data.harbor import HarborTask
from burnish.domains.terminal.oracle import Calls, shell, submit
from burnish.domains.terminal.spec import CommandsCheck, TerminalTask

ROOT: Final = "/tmp/harbor"
MOVED: Final = ("/tests", "/logs", "/solution")
BY_EXIT_CODE: Final = f"code=$?; [ $code -ge 126 ] || echo $((! code)) > {ROOT}/logs/verifier/reward.txt\n"
"""terminal-bench's reward; a runner that could not be run, or was killed, gives none."""
LONGEST_SCRIPT: Final = 8 << 20
REWARD: Final = Path(harbor_reward.__file__).read_text(encoding="utf-8")
LEVELS: Final = {"easy": 3, "medium": 4, "hard": 5}


def from_harbor(task: HarborTask) -> TerminalTask:
    """Make the terminal task; `ConfigError` if it needs a container."""
    if why := harbor.needs_container(task):
        raise ConfigError(f"task {task.name!r} needs a container backend: {why}")
    home = harbor.working_folder(task).rstrip("/") or "/"
    files, binary = _files(task, home)
    setup = [_write(name, content) for name, content in binary.items()]
    setup += [
        _moved(rest, home) for word, rest in harbor.dockerfile_lines(task) if word == "RUN" and not _is_provided(rest)
    ]
    script = _script(task, home)
    if len(script) > LONGEST_SCRIPT:
        raise ConfigError(f"task {task.name!r} needs a container backend: its tests are {len(script)} bytes")
    return TerminalTask(
        family="harbor",
        level=LEVELS.get(str(task.config.metadata.get("difficulty")), 4),
        instruction=_moved(task.instruction.strip(), home),
        files=files,
        setup=tuple(setup),
        check=CommandsCheck(script=script, includes_git=True, wall_s=min(task.config.verifier.timeout_sec, 600.0)),
        oracle=_oracle(task, home),
        max_steps=30,
        source=f"harbor:{task.name}",
        tags=tuple(str(tag) for tag in task.config.metadata.get("tags") or ()),
    )


def _files(task: HarborTask, home: str) -> tuple[dict[str, str], dict[str, bytes]]:
    texts: dict[str, str] = {}
    binary: dict[str, bytes] = {}
    for path, content in harbor.copied(task).items():
        name = path.removeprefix(f"{home.rstrip('/')}/")
        if name == path:
            raise ConfigError(f"task {task.name!r} needs a container backend: it copies {path!r}, outside of {home!r}")
        try:
            texts[name] = _moved(content.decode(), home)
        except UnicodeDecodeError:
            binary[name] = content
    return texts, binary


def _is_provided(command: str) -> bool:
    """Whether a command of the Dockerfile installs what a place has, and does nothing else."""
    parts = [part.strip() for part in re.split(r"&&|;", command)]
    return all(harbor.INSTALL.fullmatch(part) or harbor.HARMLESS.fullmatch(part) for part in parts)


def _moved(text: str, home: str) -> str:
    places = {path: f"{ROOT}{path}" for path in MOVED} | ({home: "/work"} if home != "/work" else {})
    names = "|".join(re.escape(path) for path in sorted(places, key=len, reverse=True) if path != "/")
    return re.sub(rf"(?<![\w./-])({names})(?![\w.-])", lambda found: places[found[1]], text)


def _script(task: HarborTask, home: str) -> str:
    tests = {name: _text_or_bytes(content, home) for name, content in task.tests.items()}
    env = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in task.config.verifier.env.items())
    return (
        f"mkdir -p {ROOT}/tests {ROOT}/logs/verifier {ROOT}/logs/agent {ROOT}/logs/artifacts\n"
        + "".join(f"{_write(f'{ROOT}/tests/{name}', content)}\n" for name, content in tests.items())
        + f"export TEST_DIR={ROOT}/tests\n{env}cd /work\n"
        + f"bash {ROOT}/tests/{task.runner} > {ROOT}/logs/verifier/test-stdout.txt 2>&1\n"
        + (BY_EXIT_CODE if task.runner == "run-tests.sh" else "")
        + f"python3 -I -c {shlex.quote(REWARD)} {ROOT}/logs/verifier\n"
    )


def _text_or_bytes(content: bytes, home: str) -> bytes:
    try:
        return _moved(content.decode(), home).encode()
    except UnicodeDecodeError:
        return content


def _write(name: str, content: bytes) -> str:
    folder = shlex.quote(name.rpartition("/")[0] or ".")
    return f"mkdir -p {folder} && echo {base64.b64encode(content).decode()} | base64 -d > {shlex.quote(name)}"


def _oracle(task: HarborTask, home: str) -> Calls:
    """The solution as one command, if it is one script."""
    scripts: Mapping[str, bytes] = task.solution
    if list(scripts) != ["solve.sh"]:
        return ()
    return shell(_moved(scripts["solve.sh"].decode(errors="replace"), home)), submit()
