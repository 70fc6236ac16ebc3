"""Task folders of Harbor (schema 1.4) and of terminal-bench, read as they are, and written.

A folder with `task.toml` is Harbor's, one with `task.yaml` terminal-bench's. Fields that nobody knows are errors that
name them.

Covered: single-step tasks; which of them run without a container, and why the others do not (`needs_container`).
Not covered: tasks of several steps, verifiers in an environment of their own, Windows (refused with their name).
"""

import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from burnish.core.config import validate
from burnish.core.errors import ConfigError
from burnish.data.harbor_toml import TaskToml, TaskYaml

LARGEST_FILE: Final = 4 << 20
MOST_FILES: Final = 2_000
KNOWN_BASES: Final = re.compile(r"(docker\.io/)?(library/)?(python|debian|ubuntu|alpine|bash)(:[\w.-]+)?|scratch")
"""Images that hold nothing of a task: what they are for, the host's own programs do."""
PLAIN: Final = ("FROM", "WORKDIR", "COPY", "ENV", "LABEL", "CMD", "ENTRYPOINT", "USER", "EXPOSE", "SHELL", "MAINTAINER")
PROVIDED: Final = frozenset("bash git python3 python3-pip pytest coreutils findutils grep sed gawk unzip".split())
"""What a place of this host has, so that a Dockerfile may install it."""
HARMLESS: Final = re.compile(r"apt-get (-\w+ )*(update|clean)( -\w+)*|rm -rf /var/lib/apt/lists/\S*")
INSTALL: Final = re.compile(r"(apt-get|apt|(python3? -m )?pip3?) ((-\S+ )*)install (?P<names>.*)")
INSTALLS: Final = re.compile(r"\b(apt-get|apt|apk|dnf|yum|pip3?|npm|uv|conda|curl|wget)\b")
NETWORK: Final = re.compile(
    r"^\s*(?:sudo )?(apt-get|apt|apk|curl|wget|uvx?|npm|conda|git clone|(?:python3? -m )?pip3? install)\b", re.MULTILINE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HarborTask:
    """One task folder."""

    name: str
    instruction: str
    environment: Mapping[str, bytes]
    """The build context, `Dockerfile` among it."""
    tests: Mapping[str, bytes]
    """Copied to `/tests` after the agent; `test.sh` is run."""
    solution: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    config: TaskToml = field(default_factory=TaskToml)
    runner: str = "test.sh"


def read_folder(folder: Path) -> HarborTask:
    """Read one task folder; `ConfigError` names what does not fit."""
    if (folder / "task.toml").is_file():
        return _harbor(folder)
    if (folder / "task.yaml").is_file():
        return _terminal_bench(folder)
    raise ConfigError(
        f"{str(folder)!r} is no task folder: it has neither task.toml (Harbor) nor task.yaml (terminal-bench)"
    )


def folders(path: Path) -> Iterator[Path]:
    """The task folders at a path: itself, or those below it, sorted."""
    if any((path / name).is_file() for name in ("task.toml", "task.yaml")):
        yield path
    elif path.is_dir():
        for below in sorted(path.iterdir()):
            if below.is_dir() and not below.name.startswith("."):
                yield from folders(below)


def write_folder(folder: Path, task: HarborTask, config: str) -> None:
    """Write a task folder; `config` is the text of its `task.toml`."""
    if folder.exists():
        raise ConfigError(f"{str(folder)!r} exists; name a folder that does not, or remove it")
    texts = {"task.toml": config.encode(), "instruction.md": task.instruction.encode()}
    parts = {"environment": task.environment, "tests": task.tests, "solution": task.solution}
    every = texts | {f"{part}/{name}": content for part, files in parts.items() for name, content in files.items()}
    for name, content in every.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
        if name.endswith(".sh"):
            (folder / name).chmod(0o755)


def needs_container(task: HarborTask) -> str:
    """Why a task cannot run in a place of this host; empty if it can."""
    environment = task.config.environment
    if environment.docker_image and "Dockerfile" not in task.environment:
        return f"its environment is the image {environment.docker_image!r}"
    if any(name in task.environment for name in ("docker-compose.yaml", "singularity-compose.yaml")):
        services = _compose_services(task.environment.get("docker-compose.yaml", b""))
        if len(services) > 1 or "Dockerfile" not in task.environment:
            return f"its environment is a composition of services: {', '.join(services) or 'unknown'}"
    if environment.gpus or environment.tpu or environment.mcp_servers:
        return "its environment asks for accelerators or servers of tools"
    for number, (word, rest) in enumerate(dockerfile_lines(task), 1):
        if word == "FROM" and not KNOWN_BASES.fullmatch(rest.partition(" as ")[0].partition(" AS ")[0].strip()):
            return f"instruction {number} of its Dockerfile builds on the image {rest!r}"
        if word not in (*PLAIN, "RUN") or (word == "RUN" and installs(rest)):
            return f"instruction {number} of its Dockerfile installs: {word} {rest[:60]}"
    found = NETWORK.search(task.tests[task.runner].decode(errors="replace"))
    return f"its {task.runner} installs over the network: {found[0].strip()[:60]!r}" if found else ""


def installs(command: str) -> str:
    """What a command of a Dockerfile would install that a place does not have; empty if nothing."""
    for part in re.split(r"&&|;", command):
        match = INSTALL.fullmatch(part.strip())
        names = [re.split(r"[=<>~\[]", name)[0] for name in match["names"].split() if name[0] != "-"] if match else []
        if not match and INSTALLS.search(part) and not HARMLESS.fullmatch(part.strip()):
            return part.strip()
        if missing := [name for name in names if name not in PROVIDED]:
            return missing[0]
    return ""


def dockerfile_lines(task: HarborTask) -> list[tuple[str, str]]:
    """The instructions of a task's Dockerfile, lines joined."""
    text = task.environment.get("Dockerfile", b"").decode(errors="replace")
    plain = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    lines = [line.strip() for line in plain.replace("\\\n", " ").splitlines()]
    return [(word.upper(), rest.strip()) for word, _, rest in (line.partition(" ") for line in lines if line)]


def working_folder(task: HarborTask) -> str:
    """Where the agent works: the last WORKDIR."""
    found = [rest for word, rest in dockerfile_lines(task) if word == "WORKDIR"]
    return task.config.environment.workdir or (found[-1] if found else "/app")


def copied(task: HarborTask) -> dict[str, bytes]:
    """The files that the Dockerfile copies, by absolute name in the image."""
    files: dict[str, bytes] = {}
    folder = "/"
    for word, rest in dockerfile_lines(task):
        if word == "WORKDIR":
            folder = _joined(folder, rest)
        elif word == "COPY":
            *sources, target = [each for each in shlex.split(rest) if not each.startswith("--")]
            for source in sources:
                files |= _copy(
                    task.environment, source, _joined(folder, target), len(sources) > 1 or target.endswith(("/", "."))
                )
    return files


def _copy(context: Mapping[str, bytes], source: str, target: str, is_folder: bool) -> dict[str, bytes]:
    plain = source.removeprefix("./").rstrip("/")
    if plain in context:
        return {f"{target.rstrip('/')}/{plain.rpartition('/')[2]}" if is_folder else target: context[plain]}
    prefix = "" if plain in ("", ".") else f"{plain}/"
    below = {name.removeprefix(prefix): content for name, content in context.items() if name.startswith(prefix)}
    if not below:
        raise ConfigError(f"a Dockerfile copies {source!r}, which its build context does not have")
    return {f"{target.rstrip('/')}/{name}": content for name, content in below.items() if name != "Dockerfile"}


def _joined(folder: str, path: str) -> str:
    return path if path.startswith("/") else f"{folder.rstrip('/')}/{path.removeprefix('./')}".removesuffix("/.")


def _harbor(folder: Path) -> HarborTask:
    where = str(folder / "task.toml")
    try:
        config = validate(TaskToml, tomllib.loads((folder / "task.toml").read_text(encoding="utf-8")), where)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{where}: not valid TOML: {error}") from None
    if config.steps or (folder / "steps").is_dir():
        raise ConfigError(f"{where}: a task of several steps, which is not covered; leave it out")
    if config.environment.os != "linux" or config.verifier.environment_mode != "shared":
        raise ConfigError(
            f"{where}: Windows and verifiers in an environment of their own are not covered; leave it out"
        )
    return _checked(
        HarborTask(
            name=config.task.name or folder.name,
            instruction=_required(folder, "instruction.md"),
            environment=_files(folder / "environment"),
            tests=_files(folder / "tests"),
            solution=_files(folder / "solution"),
            config=config,
        ),
        folder,
    )


def _terminal_bench(folder: Path) -> HarborTask:
    where = str(folder / "task.yaml")
    try:
        raw: Any = yaml.safe_load((folder / "task.yaml").read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise ConfigError(f"{where}: not valid YAML: {error}") from None
    told = validate(TaskYaml, raw if isinstance(raw, dict) else {}, where)
    rest = {name: content for name, content in _files(folder).items() if not name.startswith("tests/")}
    runner = rest.pop("run-tests.sh", None)
    if runner is None:
        raise ConfigError(f"{str(folder)!r} has no run-tests.sh, which terminal-bench runs; add it")
    solution = {"solve.sh": rest.pop("solution.sh")} if "solution.sh" in rest else {}
    rest.pop("task.yaml")
    metadata = told.model_dump(exclude={"instruction"}, exclude_none=True)
    return _checked(
        HarborTask(
            name=folder.name,
            instruction=told.instruction,
            environment=rest,
            tests={**_files(folder / "tests"), "run-tests.sh": runner},
            solution=solution,
            config=TaskToml(metadata=metadata),
            runner="run-tests.sh",
        ),
        folder,
    )


def _checked(task: HarborTask, folder: Path) -> HarborTask:
    if task.runner not in task.tests:
        raise ConfigError(f"{str(folder)!r} has no tests/{task.runner}, which says what a solution is worth; add it")
    return task


def _required(folder: Path, name: str) -> str:
    try:
        return (folder / name).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(f"{str(folder)!r} has no {name}; a Harbor task needs one") from None


def _files(folder: Path) -> dict[str, bytes]:
    """The regular files below a folder; links are not followed."""
    if not folder.is_dir():
        return {}
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink()]
    if len(paths) > MOST_FILES or any(path.stat().st_size > LARGEST_FILE for path in paths):
        raise ConfigError(f"{str(folder)!r} has more than {MOST_FILES} files, or one above {LARGEST_FILE} bytes")
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def _compose_services(text: bytes) -> list[str]:
    try:
        raw: Any = yaml.safe_load(text)
    except yaml.YAMLError:
        return []
    services = raw.get("services") if isinstance(raw, dict) else None
    return [str(name) for name in services] if isinstance(services, dict) else []
