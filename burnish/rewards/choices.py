r"""The one letter that a reply chooses among labelled choices.

Where it stands is `regions`' matter (`\boxed{B}`, `#### B`, "the answer is B"); a reply without mark or cue is
its first label if that stands at the start, alone or before a mark (`B`, `(B)`, `B. Paris`).

Decisions: the case of a label counts, so that the article `a` is no choice. Two different labels are no choice.
Not covered: choosing by repeating a choice's text.
"""

import re
from collections.abc import Sequence

from burnish.rewards.regions import answer_region

BARE = re.compile(r"[\s*_`\"'$\\({\[]{0,10}(?:(?:text|textbf|mathrm)\{?[\s*(]{0,4})?")
AFTER_BARE = re.compile(r"[\s*_`\"'$\\)}\].:,;-]|$")
MARKED_AFTER = re.compile(r"[*_ ]{0,3}[).:\]-]|[\s*_`\"'$\\)}\].]*$")


def chosen(reply: str, labels: Sequence[str]) -> str | None:
    """Read the chosen label; None where there is not exactly one."""
    region = answer_region(reply)
    if region.kind == "plain" or (region.kind == "cue" and not _labels_in(region.text, labels)):
        return _at_start(reply.strip()[:10_000], labels)
    found = _labels_in(region.text[:10_000], labels)
    return found.pop() if len(found) == 1 else None


def _labels_in(text: str, labels: Sequence[str]) -> set[str]:
    pattern = "|".join(re.escape(label) for label in labels)
    return set(re.findall(rf"(?<![A-Za-z0-9'])(?:{pattern})(?![A-Za-z0-9'])", text))


def _at_start(text: str, labels: Sequence[str]) -> str | None:
    opening = BARE.match(text)
    start = opening.end() if opening else 0
    found = [
        label for label in labels if text.startswith(label, start) and MARKED_AFTER.match(text, start + len(label))
    ]
    others = _labels_in(text[start:], [label for label in labels if label not in found])
    return found[0] if len(found) == 1 and not others else None
