"""Suites as files: what they pin, and what is refused."""

import pytest

from burnish.core.config import validate
from burnish.core.errors import ConfigError
from burnish.core.recipe import TaskEntry
from burnish.evals.suites import LAYERS, Suite, named, opened, read_suite, shipped

SUMS = Suite(name="sums", tasks=[TaskEntry(domain="arithmetic", num_eval=3)])


@pytest.mark.parametrize("name", shipped())
def test_a_suite_that_ships_is_read_by_name_and_says_what_it_shows(name):
    suite = read_suite(name)
    assert (suite.name, suite.layer in LAYERS, bool(suite.about)) == (name, True, True)


@pytest.mark.parametrize("name", shipped())
def test_a_suite_that_ships_comes_to_what_it_pins(name):
    suite = read_suite(name)
    assert suite.prompts
    try:
        made = opened(suite)
    except ConfigError as error:
        if "which is not installed" in str(error) or "needs the package" in str(error):
            pytest.skip(str(error))
        raise
    assert made.draws


def test_each_layer_has_a_suite_and_names_all_of_its_own():
    for layer in LAYERS:
        assert {suite.layer for suite in named([layer])} == {layer}


def test_a_file_is_named_for_itself_and_an_unknown_name_lists_the_known_ones(tmp_path):
    (tmp_path / "mine.toml").write_text('[[tasks]]\ndomain = "arithmetic"\n')
    assert read_suite(str(tmp_path / "mine.toml")).name == "mine"
    with pytest.raises(ConfigError, match="no suite 'mine'; there are: "):
        read_suite("mine")


@pytest.mark.parametrize("change", [{"seed": 2}, {"samples": 2, "temperature": 1.0}, {"temperature": 0.5}])
def test_other_tasks_or_other_draws_are_another_suite_and_another_name_is_not(change):
    suite = opened(SUMS)
    assert opened(SUMS.model_copy(update=change)).content_hash != suite.content_hash
    assert opened(SUMS.model_copy(update={"name": "x", "about": "y"})).content_hash == suite.content_hash


def test_a_pinned_suite_whose_tasks_come_out_otherwise_is_refused():
    pinned = SUMS.model_copy(update={"prompts": opened(SUMS).prompts_hash})
    assert opened(pinned).draws == opened(SUMS).draws
    with pytest.raises(ConfigError, match="pins its tasks as sha256:"):
        opened(pinned.model_copy(update={"seed": 2}))
    assert len(opened(pinned, num=2).draws) == 2  # a part of it


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"samples": 4}, "samples = 4 at temperature 0 would be 4 times the same reply"),
        ({"top_p": 0.9}, "top_p = 0.9 does nothing at temperature 0"),
        ({"layer": "other"}, "layer"),
        ({"prompts": "sha256:1"}, "prompts"),
    ],
)
def test_a_suite_that_means_nothing_is_refused(fields, message):
    with pytest.raises(ConfigError, match=message):
        validate(Suite, {"tasks": [{"domain": "arithmetic"}], **fields}, "s.toml")
