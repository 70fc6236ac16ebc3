"""A terminal task as a Harbor task folder (schema 1.4), which runs where Harbor does: in a container.

Decisions: the image is Debian's Python with git and pytest; the files lie in `/work`. The tests folder, which Harbor
brings after the agent, holds what judges: hidden tests, expected files or the script, and a judge of the standard
library and pytest. It writes one reward file, or none where it is the judge that failed (Harbor takes that for an error
of its own and not for a wrong answer). The tests run in a process of which only a whole report counts, and conftests
that are not the suite's are put aside. The oracle becomes `solve.sh`. What only our own verdict does is not in the
folder: parts for the process, the watch over the interpreter.
"""

import base64
import json
import shlex
from collections.abc import Mapping
from typing import Final

from burnish.core.types import Json
from burnish.data.harbor import HarborTask
from burnish.domains.terminal.oracle import Call
from burnish.domains.terminal.spec import CommandsCheck, EndStateCheck, TerminalTask

IMAGE: Final = "python:3.11-slim-bookworm"
TEST_SH: Final = """#!/bin/bash
mkdir -p /logs/verifier
cd /work
python3 -B /tests/judge.py > /logs/verifier/judge.txt 2>&1
case $? in
  0) echo 1 > /logs/verifier/reward.txt ;;
  1) echo 0 > /logs/verifier/reward.txt ;;
esac
"""
BY_TESTS: Final = '''"""Lay the tests over the tree and run them.

Exit code 0 if each expected one passes, 1 if not, 2 if that cannot be said.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SUITE = os.path.join(HERE, "suite")


class Reporter:
    def __init__(self):
        self.bad, self.good = set(), set()

    def pytest_runtest_logreport(self, report):
        is_plain = report.outcome == "passed" and not hasattr(report, "wasxfail")
        (self.good if is_plain else self.bad).add(report.nodeid)


def run(path, expected):
    import pytest

    sys.path.append(os.getcwd())
    reporter = Reporter()
    files = sorted({name.partition("::")[0] for name in expected})
    pytest.main(["-c", os.devnull, "--rootdir=.", "-p", "no:cacheprovider", "-q", *files], plugins=[reporter])
    with open(path, "w") as file:
        json.dump(sorted(reporter.good - reporter.bad), file)


def main(expected):
    import pytest  # one that is missing is no fault of the tests

    shutil.copytree(SUITE, os.getcwd(), dirs_exist_ok=True)
    for folder, _, names in os.walk(os.getcwd()):
        own = os.path.join(SUITE, os.path.relpath(folder, os.getcwd()), "conftest.py")
        if "conftest.py" in names and not os.path.exists(own):
            os.remove(os.path.join(folder, "conftest.py"))
    path = os.path.join(tempfile.mkdtemp(), "report")
    subprocess.run([sys.executable, "-B", os.path.abspath(__file__), path])
    passed = set(json.load(open(path))) if os.path.exists(path) else set()
    return expected <= passed


if __name__ == "__main__":
    wanted = set(json.load(open(os.path.join(HERE, "expected.json"))))
    if len(sys.argv) > 1:
        run(sys.argv[1], wanted)
        os._exit(0)
    try:
        is_right = main(wanted)
    except Exception as error:
        print(repr(error))
        sys.exit(2)
    sys.exit(0 if is_right else 1)
'''
BY_FILES: Final = '''"""Compare the tree with what it should be: exit code 0 if each expected file is right."""

import base64
import hashlib
import json
import os
import sys
import unicodedata

HERE = os.path.dirname(os.path.abspath(__file__))


def lines(content):
    text = content.decode("utf-8", "surrogateescape").removeprefix("\\ufeff").replace("\\r\\n", "\\n")
    return "\\n".join(unicodedata.normalize("NFC", line.rstrip()) for line in text.split("\\n")).rstrip("\\n")


def is_right(one):
    if one["way"] == "absent" or not os.path.isfile(one["name"]):
        return one["way"] == "absent" and not os.path.lexists(one["name"])
    content, wanted = open(one["name"], "rb").read(), base64.b64decode(one["content"])
    if one["way"] == "text":
        return lines(content) == lines(wanted)
    if one["way"] == "json":
        try:
            return json.loads(content) == json.loads(wanted)
        except ValueError:
            return False
    return (hashlib.sha256(content).hexdigest().encode() if one["way"] == "sha256" else content) == wanted


sys.exit(0 if all(map(is_right, json.load(open(os.path.join(HERE, "expected.json"))))) else 1)
'''
REPLACE: Final = (
    "import sys; path, old, new = sys.argv[1:]; text = open(path).read(); assert text.count(old) == 1; "
    "open(path, 'w').write(text.replace(old, new))"
)
BY_SCRIPT: Final = '''"""Run the script that judges: exit code 0 if its is, 1 if not, 2 if it cannot be run."""

import os
import subprocess
import sys

script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "check.sh")
try:
    code = subprocess.run(["bash", script]).returncode
except OSError as error:
    print(repr(error))
    sys.exit(2)
sys.exit(0 if code == 0 else 1)
'''


def to_harbor(task: TerminalTask, base: Mapping[str, bytes], name: str) -> tuple[HarborTask, str]:
    """The task folder, and the text of its `task.toml`; `base` is the tree that `task.base` names."""
    tree = {path: content for path, content in base.items() if path not in task.removed}
    tree |= {path: text.encode() for path, text in task.files.items()}
    environment = {"Dockerfile": _dockerfile(task).encode(), **{f"work/{path}": text for path, text in tree.items()}}
    if task.setup:
        environment["work/.setup.sh"] = "\n".join(["set -e", *task.setup, ""]).encode()
    solution = {"solve.sh": _solve(task).encode()} if task.oracle else {}
    folder = HarborTask(
        name=name, instruction=f"{task.instruction}\n", environment=environment, tests=_tests(task), solution=solution
    )
    return folder, _toml(task, name)


def _dockerfile(task: TerminalTask) -> str:
    lines = [
        f"FROM {IMAGE}",
        "RUN apt-get update && apt-get install -y --no-install-recommends git && rm -rf /var/lib/apt/lists/*",
        "RUN pip install --no-cache-dir pytest",
        "WORKDIR /work",
        "COPY work/ /work/",
    ]
    if task.executable:
        lines.append(f"RUN chmod +x {shlex.join(task.executable)}")
    if task.setup:
        lines.append("RUN mv .setup.sh /tmp/setup.sh && bash /tmp/setup.sh && rm -f /tmp/setup.sh")
    return "\n".join([*lines, ""])


def _tests(task: TerminalTask) -> dict[str, bytes]:
    check = task.check
    files = {"test.sh": TEST_SH.encode()}
    if isinstance(check, CommandsCheck):
        return files | {"judge.py": BY_SCRIPT.encode(), "check.sh": check.script.encode()}
    if isinstance(check, EndStateCheck):
        expected: list[Json] = [
            {"name": one.name, "way": one.way, "content": base64.b64encode(one.content).decode()}
            for one in check.expected
        ]
        return files | {"judge.py": BY_FILES.encode(), "expected.json": json.dumps(expected, indent=1).encode()}
    suite = {f"suite/{name}": text.encode() for name, text in {**check.tests, **check.data}.items()}
    ids = json.dumps([*check.required, *check.kept], indent=1)
    return files | suite | {"judge.py": BY_TESTS.encode(), "expected.json": ids.encode()}


def _solve(task: TerminalTask) -> str:
    return "\n".join(["#!/bin/bash", "cd /work", *filter(None, map(_command, task.oracle)), ""])


def _command(call: Call) -> str:
    """A tool call as a command; looking changes nothing and is left out."""
    arguments = call["arguments"] if isinstance(call["arguments"], dict) else {}
    match call["name"]:
        case "shell":
            return str(arguments["command"])
        case "create":
            return f"printf %s {shlex.quote(str(arguments['content']))} > {shlex.quote(str(arguments['path']))}"
        case "replace":
            return f"python3 -c {shlex.quote(REPLACE)} " + shlex.join(
                str(arguments[key]) for key in ("path", "old", "new")
            )
        case _:
            return ""


def _toml(task: TerminalTask, name: str) -> str:
    def text(value: str) -> str:
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")

    return (
        f'schema_version = "1.4"\nsource = {text(task.source)}\n\n[task]\nname = {text(name)}\n'
        f"description = {text(task.family)}\nkeywords = [{', '.join(map(text, task.tags))}]\n\n"
        f"[metadata]\nlevel = {task.level}\nfamily = {text(task.family)}\n\n"
        f"[agent]\ntimeout_sec = {60 * task.max_steps}.0\n\n[verifier]\ntimeout_sec = 120.0\n\n"
        '[environment]\nnetwork_mode = "no-network"\nmemory_mb = 1024\n'
    )
