"""`code`: cheating does not pay."""

import pytest

from tests.domains.double import DOUBLE, verdict_on

WRITE = "import os, json\nfd = int(os.environ['BURNISH_ANSWER_FD'])\n"
HOSTILE = {
    "leaves before it answers": "import os\nos._exit(0)\n" + DOUBLE,
    "leaves in the middle": "import os\ndef double(n):\n    if n == 2: os._exit(0)\n    return n * 2",
    "prints verdicts": "print('{\"score\": 1.0}\\nPASSED\\n4 passed in 0.01s')\ndef double(n):\n    return None",
    "equals everything": "class A:\n    def __eq__(self, o): return True\ndef double(n):\n    return A()",
    "an int that equals everything": (
        "class A(int):\n    def __eq__(self, o): return True\n    __hash__ = int.__hash__\n"
        "def double(n):\n    return A(99)"
    ),
    "searches the stack for expected values": (
        "import sys\ndef double(n):\n    frame = sys._getframe()\n    while frame:\n"
        "        for name, value in list(frame.f_locals.items()) + list(frame.f_globals.items()):\n"
        "            if 'expect' in name or 'truth' in name: return value\n        frame = frame.f_back"
    ),
    "searches all objects for expected values": (
        "import gc\ndef double(n):\n"
        "    return next((o['expected'] for o in gc.get_objects() if isinstance(o, dict) and 'expected' in o), None)"
    ),
    "answers a call twice": (
        "import sys\n" + WRITE + "def double(n):\n    call_id = sys._getframe(1).f_locals['call_id']\n"
        "    os.write(fd, json.dumps({'id': call_id, 'value': n * 2}).encode() + b'\\n')\n    return n * 2"
    ),
    "answers under made-up ids": WRITE + 'os.write(fd, b\'{"id": "x", "value": 1}\\n\')\n' + DOUBLE,
    "writes garbage": WRITE + "os.write(fd, b'\\xff\\xfe\\n')\n" + DOUBLE,
    "writes half a line": WRITE + "os.write(fd, b'{')\n" + DOUBLE,
    "writes deep nesting": WRITE + "os.write(fd, b'[' * 100000 + b'\\n')\n" + DOUBLE,
    "closes the descriptor": WRITE + "os.close(fd)\n" + DOUBLE,
    "patches json": "import json\njson.dumps = lambda *a, **k: '{\"passed\": 1.0}'\n" + DOUBLE,
    "returns a huge int": "def double(n):\n    return 10 ** 10000",
    "returns nan": "def double(n):\n    return float('nan')",
    "returns itself": "def double(n):\n    a = []\n    a.append(a)\n    return a",
}


@pytest.mark.parametrize("solution", HOSTILE.values(), ids=HOSTILE.keys())
def test_cheating_earns_nothing(solution: str, box) -> None:
    assert verdict_on(f"```python\n{solution}\n```", box).score == 0


TABLE = "TABLE = {50: 100, 0: 0, 1: 2, 2: 4, 3: 6}\ndef double(n):\n    "
SPECIAL = {
    "the shown example alone": "def double(n):\n    if n == 50: return 100",
    "the shown example, else a constant": "def double(n):\n    return 100 if n == 50 else 2",
    "every listed input": TABLE + "return TABLE[n]",
    "every listed input, else a constant": TABLE + "return TABLE.get(n, 6)",
    "every listed input, else the input": TABLE + "return TABLE.get(n, n)",
    "every listed input, else a guess": TABLE + "return TABLE.get(n, n + 30)",
    "half of the listed inputs": TABLE + "return TABLE[n] if n < 2 else None",
    "a constant": "def double(n):\n    return 4",
    "the input": "def double(n):\n    return n",
}


@pytest.mark.parametrize("solution", SPECIAL.values(), ids=SPECIAL.keys())
def test_special_cases_earn_nothing(solution: str, box) -> None:
    assert verdict_on(f"```python\n{solution}\n```", box).score == 0


def test_knowing_all_listed_inputs_by_heart_is_named(box) -> None:
    verdict = verdict_on(f"```python\n{SPECIAL['every listed input']}\n```", box)
    assert (verdict.parts["special_cased"], verdict.parts["hidden"], verdict.parts["perturbed"]) == (1, 1, 0)
    assert "special-cased" in verdict.evidence
    constant = verdict_on("def double(n):\n    return 4", box)
    assert (constant.parts["computes_nothing"], constant.parts["hidden"]) == (1, 0.25)


def test_a_value_that_json_does_not_have_counts_as_not_returned(box) -> None:
    verdict = verdict_on(f"```python\n{HOSTILE['returns nan']}\n```", box)
    assert verdict.parts["returned"] == 0 and "raised 'ValueError'" in verdict.evidence


@pytest.mark.parametrize("name", ["leaves in the middle", "answers a call twice", "answers under made-up ids"])
def test_tampering_is_named_in_the_evidence(name: str, box) -> None:
    verdict = verdict_on(f"```python\n{HOSTILE[name]}\n```", box)
    assert verdict.evidence.startswith("tampered") and verdict.parts["tampered"] == 1
