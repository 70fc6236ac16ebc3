"""Compare a reply's JSON object with the true fields of a document, field by field.

Decisions: every fault of a reply is a score, never an exception; a field is right or wrong, there is
no partial credit inside one. Amounts may come as numbers or as text with marks and a currency, dates in any
form whose order of day and month is clear.
"""

import json
import re
import unicodedata
from collections.abc import Mapping
from datetime import date
from decimal import Decimal, InvalidOperation

from burnish.core.types import Json, Verdict
from burnish.domains.document_content import AMOUNT_KEYS, DATE_KEYS

NUM_FREE_KEYS = 2


def compare(truth: Mapping[str, Json], reply: str) -> Verdict:
    """Score = right fields / (asked fields + unasked keys beyond two)."""
    found = read_object(reply)
    if found is None:
        return _verdict(0.0, 0.0, 0.0, "not one JSON object")
    wrong = [key for key in truth if key not in found or not is_right(key, found[key], str(truth[key]))]
    missing = [key for key in truth if key not in found]
    num_surplus = max(0, len(found.keys() - truth.keys()) - NUM_FREE_KEYS)
    accuracy = (len(truth) - len(wrong)) / (len(truth) + num_surplus)
    notes = [_complaint(key, found, truth) for key in wrong]
    if num_surplus:
        notes.append(f"{num_surplus} unasked keys too many")
    return _verdict(accuracy, 1 - len(missing) / len(truth), 1.0, "; ".join(notes) or "all fields right")


def is_right(key: str, value: Json, true: str) -> bool:
    """Compare one field by what it means."""
    if key in AMOUNT_KEYS:
        return read_amount(value) == Decimal(true)
    if not isinstance(value, str):
        return False
    if key in DATE_KEYS:
        return read_date(value) == date.fromisoformat(true)
    return _plain(value) == _plain(true)


def _verdict(accuracy: float, completeness: float, valid: float, evidence: str) -> Verdict:
    parts = {"valid_json": valid, "accuracy": accuracy, "completeness": completeness}
    return Verdict.scored(accuracy, parts, evidence)


def _complaint(key: str, found: Mapping[str, Json], truth: Mapping[str, Json]) -> str:
    got = ascii(found[key])[:60] if key in found else "nothing"
    return f"{key}: got {got}, expected {truth[key]!r}"


def _plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).casefold().split())


def read_object(reply: str) -> dict[str, Json] | None:
    try:
        value = json.loads(reply)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def read_amount(value: Json) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return Decimal(str(value))
    except InvalidOperation:
        return None


def read_date(value: str) -> date | None:
    return date.fromisoformat(value) if re.fullmatch(r"\d{4}-\d\d-\d\d", value) else None
