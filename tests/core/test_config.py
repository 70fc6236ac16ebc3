"""What users write: every fault is one line that says where, what, and the way out."""

import pytest
from pydantic import Field, model_validator

from burnish.core.config import Strict, override, read_toml, validate
from burnish.core.errors import ConfigError
from burnish.core.recipe import Recipe, read_recipe

RECIPE = """
name = "r"
[[tasks]]
domain = "code"
[[tasks]]
domain = "rg:chain_sum"
options = { min_terms = 2 }
[[stages]]
use = "sft"
"""


class Inner(Strict):
    rank: int = Field(default=1, ge=1)


class Outer(Strict):
    seed: int
    inner: Inner | None = None
    many: list[Inner] = []
    rate: float = 1.0

    @model_validator(mode="after")
    def _fits(self) -> "Outer":
        if self.seed == 13:
            raise ValueError("13 is unlucky; choose another")
        return self


class Whole(Strict):
    outer: Outer


def message(data, model=Outer):
    with pytest.raises(ConfigError) as caught:
        validate(model, data, "r.toml")
    return str(caught.value)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"seed": 1, "sead": 2}, "r.toml: unknown key 'sead'; did you mean 'seed'?"),
        ({"seed": 1, "zzz": 2}, "r.toml: unknown key 'zzz'; known keys: inner, many, rate, seed"),
        ({"seed": 1, "inner": {"rnk": 2}}, "r.toml: unknown key 'inner.rnk'; did you mean 'rank'?"),
        ({"seed": 1, "many": [{}, {"zzz": 2}]}, "r.toml: unknown key 'many.1.zzz'; known keys: rank"),
        ({}, "r.toml: 'seed' is missing; it is required"),
        ({"seed": 1, "inner": {"rank": 0}}, "r.toml: 'inner.rank': Input should be greater than or equal to 1; got 0"),
    ],
)
def test_a_fault_says_where_what_and_the_way_out(data, expected):
    assert message(data) == expected


def test_a_fault_of_options_together_is_its_own_message():
    assert message({"seed": 13}) == "r.toml: 13 is unlucky; choose another"
    assert message({"outer": {"seed": 13}}, Whole) == "r.toml: 'outer': 13 is unlucky; choose another"


@pytest.mark.parametrize("value", [True, "2", 2.0])
def test_what_is_no_whole_number_is_not_taken_for_one(value):
    assert message({"seed": value}).endswith(f"got {value!r}")


@pytest.mark.parametrize("value", [float("inf"), float("nan"), "1.5", True])
def test_what_is_no_finite_number_is_not_taken_for_one(value):
    assert message({"seed": 1, "rate": value}).endswith(f"got {value!r}")


def test_a_long_value_is_shown_in_part():
    assert len(message({"seed": "x" * 10_000})) < 300


def test_every_fault_has_its_line():
    assert message({"sead": 1, "inner": {"rnk": 1}}).count("\n") == 2


@pytest.mark.parametrize(
    ("assignment", "path", "value"),
    [
        ("seed=2", ["seed"], 2),
        ("model.name=starter", ["model", "name"], "starter"),
        ("model.lora.rank=8", ["model", "lora", "rank"], 8),
        ("tasks.1.weight=0.5", ["tasks", 1, "weight"], 0.5),
        ('tasks.0.options={ a = [1, "x"] }', ["tasks", 0, "options"], {"a": [1, "x"]}),
        ("name = a=b", ["name"], "a=b"),
        ("flag=true", ["flag"], True),
        ("text=1\nother=2", ["text"], "1\nother=2"),
    ],
)
def test_an_assignment_lands_where_it_says(assignment, path, value):
    data = override({"tasks": [{"domain": "a"}, {"domain": "b"}]}, [assignment])
    for key in path:
        data = data[key]
    assert data == value


@pytest.mark.parametrize(
    ("assignment", "expected"),
    [
        ("seed", "expected KEY=VALUE"),
        ("seed.more=1", "'seed' is a value, it has no keys below it"),
        ("tasks.2.weight=1", "'2' is no index into a list of 2 entries"),
        ("tasks.first.weight=1", "'first' is no index"),
        ("tasks.².weight=1", "'²' is no index"),
        ("tasks.٠.weight=1", "'٠' is no index"),
        (f"tasks.{'9' * 5000}=1", "is no index"),
    ],
)
def test_an_assignment_that_cannot_land_says_why(assignment, expected):
    with pytest.raises(ConfigError, match=expected):
        override({"seed": 1, "tasks": [{}, {}]}, [assignment])


def test_later_assignments_win():
    assert override({}, ["a.b=1", "a.b=2"]) == {"a": {"b": 2}}


@pytest.mark.parametrize(
    ("content", "expected"),
    [(None, "no file"), (b"a = ", "not valid TOML"), (b'a = "\xff"', "cannot read")],
)
def test_a_file_that_cannot_be_read_says_why(tmp_path, content, expected):
    path = tmp_path / "r.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=expected) as caught:
        read_toml(path)
    assert "r.toml" in str(caught.value)


def test_a_recipe_reads_with_its_options_and_overrides(tmp_path):
    (tmp_path / "r.toml").write_text(RECIPE)
    recipe = read_recipe(tmp_path / "r.toml", ["tasks.1.options.max_terms=3", "model.lora.rank=4"])
    assert recipe.tasks[1].options == {"min_terms": 2, "max_terms": 3}
    assert recipe.model.lora is not None
    assert recipe.model.lora.rank == 4
    assert [entry.report_name for entry in recipe.tasks] == ["code", "rg:chain_sum"]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"stages": [{"lr": 1}]}, "stage 0 says no `use`"),
        ({"stages": []}, "'stages'"),
        ({"tasks": [{"domain": "code", "wieght": 2}]}, "unknown key 'tasks.0.wieght'; did you mean 'weight'?"),
        ({"name": "../up"}, "'name'"),
        ({"name": "a" * 200}, "'name'"),
        ({"sandbox": {"isolation": "off"}}, "no isolation 'off'; there are: bubblewrap, docker, "),
    ],
)
def test_a_wrong_recipe_says_so(change, expected):
    data = {"name": "r", "tasks": [{"domain": "code"}], "stages": [{"use": "sft"}]}
    assert expected in message(data | change, Recipe)
