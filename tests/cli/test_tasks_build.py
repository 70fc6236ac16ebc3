"""How a number of tasks is spread over packages that cannot all give their share."""

import asyncio

import pytest

from burnish.commands.tasks_build import spread
from burnish.data.packages.build import Built, Summary
from burnish.data.packages.trial import Trial
from tests.data.packages import tiny


def gives(most: dict[str, int], asked: list[tuple[str, int]]):
    async def build_one(tree, num):
        name = tree.package.name
        asked.append((name, num))
        if most[name] < 0:
            return None
        tried = tuple(Trial(key=f"{name}{at}", status="kept", faults=()) for at in range(min(num, most[name])))
        summary = Summary(tried=tuple(one.key for one in tried), num_tests=1, num_unstable=0, num_sites=9)
        return Built(tree=tree, tried=tried, summary=summary)

    return build_one


@pytest.mark.parametrize(
    ("most", "num", "expected"),
    [
        ({"a": 99, "b": 99, "c": 99}, 10, [4, 3, 3]),
        ({"a": 99, "b": 2, "c": 99}, 12, [5, 2, 5]),
        ({"a": 99, "b": -1, "c": 1}, 12, [11, 1]),
        ({"a": 3, "b": 2, "c": 1}, 12, [3, 2, 1]),
        ({"a": -1, "b": -1, "c": -1}, 12, []),
        ({"a": 9, "b": 9, "c": 9}, 2, [1, 1]),
    ],
)
def test_what_a_package_cannot_give_the_others_are_asked_for(most, num, expected):
    asked: list[tuple[str, int]] = []
    trees = [tiny.tree(name=name) for name in most]
    built = asyncio.run(spread(trees, num, gives(most, asked)))
    assert [len(one.kept) for one in built] == expected
    assert len(asked) == len(set(asked))
