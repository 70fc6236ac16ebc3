"""What a recipe can choose of the domain."""

import pytest

from burnish.core.errors import ConfigError
from burnish.domains.terminal import load

LOWER = {"levels": [0, 1, 2]}


def test_entries_that_differ_in_their_options_draw_other_tasks():
    seen, unseen = (load("", LOWER | {"held_out": held_out}) for held_out in ("without", "only"))
    told = [{domain.task("train", 1, index).messages[1].content for index in range(20)} for domain in (seen, unseen)]
    assert len(told[0] & told[1]) <= 2
    again = load("", LOWER | {"held_out": "without"})
    assert seen.task("train", 1, 7) == again.task("train", 1, 7)


def test_a_policy_is_told_of_the_tools_that_were_chosen_in_their_own_order():
    named = load("fix_line", {"tools": ["submit", "shell"]})
    assert [tool["function"]["name"] for tool in named.tools] == ["shell", "submit"]
    assert len(load("fix_line", {}).tools) == 8


@pytest.mark.parametrize(
    ("tools", "message"), [(["shell", "sumbit"], "no tool 'sumbit'; there are: shell"), (["shell"], "without 'submit'")]
)
def test_tools_that_are_none_or_have_no_end_are_refused(tools, message):
    with pytest.raises(ConfigError, match=message):
        load("", {"tools": tools})
