"""docs/objectives.md says what the code does."""

import dataclasses
import re
from pathlib import Path

import pytest

from burnish.core import plugins
from burnish.objectives import aggregation

TEXT = (Path(__file__).parents[2] / "docs" / "objectives.md").read_text(encoding="utf-8")
ROWS = {match[1]: match[0] for match in re.finditer(r"^\| `(\w+)` \|.*$", TEXT, re.MULTILINE)}


@pytest.mark.parametrize("name", plugins.names("objectives"))
def test_table_gives_each_objective_its_defaults_and_aggregation(name):
    module = plugins.load("objectives", name)
    assert f"`{module.AGGREGATION}`" in ROWS[name]
    for key, value in dataclasses.asdict(module.Config()).items():
        assert f"`{key}={value!r}`" in ROWS[name]


@pytest.mark.parametrize("name", plugins.names("preferences"))
def test_table_gives_each_preference_loss_its_defaults(name):
    for key, value in dataclasses.asdict(plugins.load("preferences", name).Config()).items():
        assert f"`{key}={value!r}`" in ROWS[name]


@pytest.mark.parametrize("kind", ["objectives", "preferences"])
def test_page_names_each_dialect(kind):
    for name in plugins.names(kind):
        for dialect in getattr(plugins.load(kind, name), "DIALECTS", {}):
            assert f"`{name}@{dialect}`" in TEXT


@pytest.mark.parametrize("code", re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL))
def test_code_in_the_page_runs(code):
    exec(compile(code, "docs/objectives.md", "exec"), {})


@pytest.mark.parametrize("kind", aggregation.Kind.__args__)
def test_table_names_each_aggregation(kind):
    assert kind in ROWS
