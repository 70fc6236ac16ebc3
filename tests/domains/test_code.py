"""The domain `code`: replies are read as asked, and the splits are what they are called."""

import re

import pytest

from burnish.core.errors import ConfigError
from burnish.domains import code, open_domain
from tests.domains.double import DOUBLE

SEEN, HELD_OUT = code.EVAL_FAMILIES["seen"], code.EVAL_FAMILIES["held_out"]


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (f"```python\n{DOUBLE}\n```", DOUBLE + "\n"),
        (f"```\n{DOUBLE}\n```", DOUBLE + "\n"),
        (f"Here it is:\n```py\n{DOUBLE}\n```\nIt doubles.", DOUBLE + "\n"),
        (f"```python\n{DOUBLE}", DOUBLE),
        (f"```python\n{DOUBLE}\n```\n```python\ndef double(n): return 0\n```", DOUBLE + "\n"),
        (DOUBLE, DOUBLE),
        (f"Sure!\n{DOUBLE}\nThis doubles n.", DOUBLE),
        (f"import math\n\n{DOUBLE}\n\nprint it", f"import math\n\n{DOUBLE}\n"),
        (f"<think>\n```python\ndef double(n): return 0\n```\n</think>\n```python\n{DOUBLE}\n```", DOUBLE + "\n"),
        (f"<think>\n```python\n{DOUBLE}\n```", ""),
        (f"<think>{'so ' * 10_000}</think>\n```python\n{DOUBLE}\n```", DOUBLE + "\n"),
        ("n * 2", ""),
        ("", ""),
        ("x" * 1_000_000, ""),
        (DOUBLE + "\n" + "#" * 1_000_000, ""),
    ],
)
def test_the_code_is_found_in_the_reply(reply: str, expected: str) -> None:
    assert code.find_code(reply) == expected


@pytest.mark.parametrize(("eval_on", "expected"), [("mixed", 20), ("held_out", 40), ("seen", 0)])
def test_eval_has_the_share_of_held_out_families_that_the_option_names(eval_on: str, expected: int) -> None:
    domain = open_domain("code", {"eval_on": eval_on})
    tags = [domain.task("eval", 1, index).tags[0] for index in range(40)]
    assert tags.count("held_out_family") == expected


def test_training_never_draws_a_held_out_family() -> None:
    domain = open_domain("code")
    trained = {domain.task("train", 1, index).source for index in range(300)}
    assert trained == {f"code/{family.name}" for family in SEEN}


def test_no_prompt_of_a_seen_family_is_in_both_splits() -> None:
    domain = open_domain("code", {"eval_on": "seen"})
    trained, evaluated = (
        {code.split_of(domain.task(split, 1, index).messages[0].content) for index in range(100)}
        for split in ("train", "eval")
    )
    assert (trained, evaluated) == ({"train"}, {"eval"})


@pytest.mark.parametrize(
    ("options", "message"),
    [({"family": 1}, "unknown option 'family'; known options: eval_on"), ({"eval_on": "all"}, "mixed, held_out, seen")],
)
def test_a_wrong_option_is_refused_with_the_right_ones(options: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        open_domain("code", options)
