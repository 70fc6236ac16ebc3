"""The documents name files and commands that exist, and the domain in CONTRIBUTING.md works."""

import asyncio
import re
import sys
import types
from pathlib import Path

import pytest
from typer.main import get_command

from burnish.cli import app
from burnish.sandbox import open_box

ROOT = Path(__file__).parent.parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("docs/domains/*.md")])


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_a_document_links_to_files_that_exist(document):
    links = re.findall(r"\]\(([^)#:]+)\)", document.read_text())
    assert [link for link in links if not (document.parent / link).exists()] == []


@pytest.mark.parametrize("name", ["README.md", "docs/architecture.md"])
def test_the_folder_tree_is_the_one_on_disk(name):
    listed = set(re.findall(r"^ *(burnish/\w+(?:/|\.py))  ", (ROOT / name).read_text(), re.MULTILINE))
    packages = {f"burnish/{path.parent.name}/" for path in ROOT.glob("burnish/*/__init__.py")}
    assert listed - {"burnish/cli.py"} == packages


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_a_document_names_commands_that_exist(document):
    commands = set(re.findall(r"(?:`|bin/)burnish ((?:tasks |sandbox )?[a-z]+)\b", document.read_text()))
    assert commands <= known_commands()


def known_commands():
    found = set()
    for name, command in get_command(app).commands.items():
        found |= {name} | {f"{name} {below}" for below in getattr(command, "commands", {})}
    return found


def test_the_domain_that_contributing_shows_keeps_a_domains_promises(monkeypatch):
    code = re.findall(r"```python\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(), re.DOTALL)[0]
    module = types.ModuleType("reverse")
    monkeypatch.setitem(sys.modules, "reverse", module)
    exec(code, module.__dict__)
    domain = module.load("", {})
    task = domain.task("eval", 1, 0)

    async def scores():
        async with open_box("none", num_workers=1) as box:
            return [(await domain.verify(task, reply, box)).score for reply in (task.gold, "", task.gold[::-1] + "x")]

    assert asyncio.run(scores()) == [1.0, 0.0, 0.0]
    assert task == domain.task("eval", 1, 0)
