"""The reward that a Harbor verifier left: `reward.json`, `reward.txt`, or both if they say the same.

Harbor reads `reward.json` and falls back on `reward.txt`; older readers prefer `reward.txt`, so that one task has had
two rewards. Here both count: where they disagree there is no reward. A JSON reward is a number, or numbers by name:
then `reward` if there is one of that name, else their mean. Only finite numbers from 0 to 1 are rewards. The exit code
of the verifier counts for nothing. Runs inside a place too, sent as text, so it takes the standard library alone. As a
program, on the folder that is named: exit code 0 if the reward is 1, 1 if it is less, `NO_REWARD` if there is none.
"""

import json
import math
import os
import sys

NO_REWARD = 93
"""No program of tests ends with this by chance, so that a verdict can tell."""


class NoReward(Exception):
    """There is no reward; the message says why."""


def reward(json_text: str | None, txt: str | None) -> float:
    """The reward of the two files' texts; None is a file that is not there."""
    found = [read(text) for read, text in ((_of_json, json_text), (_of_txt, txt)) if text is not None]
    if not found:
        raise NoReward("neither reward.json nor reward.txt was written")
    if len(found) == 2 and abs(found[0] - found[1]) > 1e-9:
        raise NoReward(f"reward.json says {found[0]!r} and reward.txt {found[1]!r}")
    return found[0]


def _of_json(text: str) -> float:
    try:
        value = json.loads(text)
    except ValueError:
        raise NoReward(f"reward.json is not JSON: {text[:60]!r}") from None
    if isinstance(value, dict) and value:
        numbers = {str(name): _checked(each, "reward.json") for name, each in value.items()}
        return numbers.get("reward", sum(numbers.values()) / len(numbers))
    return _checked(value, "reward.json")


def _of_txt(text: str) -> float:
    try:
        return _checked(float(text.strip()), "reward.txt")
    except ValueError:
        raise NoReward(f"reward.txt is no number: {text[:60]!r}") from None


def _checked(value: object, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or not 0 <= value <= 1:
        raise NoReward(f"{where} says {value!r}; expected a number from 0 to 1")
    return float(value)


def _text(path: str) -> str | None:
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read(1 << 16)


if __name__ == "__main__":
    try:
        value = reward(*(_text(os.path.join(sys.argv[1], name)) for name in ("reward.json", "reward.txt")))
    except NoReward as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(NO_REWARD)
    sys.exit(0 if value >= 1 else 1)
