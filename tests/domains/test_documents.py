"""Documents: what fields are worth, how documents write them, and which layouts are held out."""

import asyncio
import json
import re
from datetime import date
from decimal import Decimal
from random import Random

import pytest

from burnish.core.errors import ConfigError
from burnish.core.types import Message, Task, Verdict
from burnish.domains import open_domain
from burnish.domains.document_content import KEYS, fill, write_amount, write_date, write_money
from burnish.domains.document_layouts_held_out import LAYOUTS as HELD_OUT
from burnish.domains.document_layouts_seen import LAYOUTS as SEEN

TRUTH = {
    "number": "INV-123",
    "date": "2026-03-05",
    "vendor": "Blue Foods Ltd",
    "currency": "EUR",
    "total": "1234.50",
}
TASK = Task(id="documents/train/1/0", domain="documents", messages=(Message(role="user", content="?"),), truth=TRUTH)
RIGHT = {**TRUTH, "total": 1234.5}


def verdict_on(reply: object) -> Verdict:
    text = reply if isinstance(reply, str) else json.dumps(reply)
    return asyncio.run(open_domain("documents").verify(TASK, text, None))


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("total", 1234.5, True),
        ("total", "1234.50", True),
        ("total", "1,234.50", True),
        ("total", "1.234,50", True),
        ("total", "1 234,50", True),
        ("total", "€1,234.50", True),
        ("total", "1,234.50 EUR", True),
        ("total", 1234, False),
        ("total", 123450, False),
        ("total", "1234.51", False),
        ("total", True, False),
        ("total", None, False),
        ("total", ["1234.50"], False),
        ("date", "2026-03-05", True),
        ("date", "5 March 2026", True),
        ("date", "March 5, 2026", True),
        ("date", "03/05/2026", False),
        ("date", "2026-05-03", False),
        ("date", "2026-02-30", False),
        ("date", 20260305, False),
        ("vendor", " blue  foods LTD", True),
        ("vendor", "Blue Foods", False),
        ("vendor", ["Blue Foods Ltd"], False),
        ("number", "inv-123", True),
        ("number", "123", False),
        ("currency", "eur", True),
        ("currency", "€", False),
    ],
)
def test_a_field_is_compared_by_what_it_means(key: str, value: object, expected: bool) -> None:
    assert verdict_on({key: value}).score == (0.2 if expected else 0)


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (RIGHT, 1.0),
        ({**RIGHT, "vendor": "Other Ltd"}, 0.8),
        ({"total": 1234.5}, 0.2),
        ({**RIGHT, "a": 1, "b": [2]}, 1.0),
        ({"invoice": RIGHT}, 0.0),
        ({}, 0.0),
        ([RIGHT], 0.0),
        ("", 0.0),
        ("null", 0.0),
        (str(RIGHT), 0.0),
        (json.dumps(RIGHT) + json.dumps(RIGHT), 0.0),
        (json.dumps(RIGHT) + " and so on", 0.0),
        (json.dumps(RIGHT)[:-1] + ', "total": 1}', 0.0),
        ("```json\n" + json.dumps(RIGHT) + "\n```", 1.0),
        ("[" * 200_000, 0.0),
        ('{"a":' * 100_000, 0.0),
        ('{"total": ' + "9" * 100_000 + "}", 0.0),
        ('{"total": 1e999999999}', 0.0),
        ('{"total": NaN}', 0.0),
        ("x" * 1_000_000, 0.0),
        ('{"vendor": "' + "x" * 1_000_000 + '"}', 0.0),
        ('{"vendor": "\\ud800"}', 0.0),
    ],
)
def test_a_reply_is_worth_its_share_of_right_fields(reply: object, expected: float) -> None:
    assert verdict_on(reply).score == pytest.approx(expected)


def test_parts_tell_missing_fields_from_wrong_ones() -> None:
    verdict = verdict_on({"number": "INV-123", "total": 5})
    assert verdict.parts == pytest.approx({"valid_json": 1.0, "accuracy": 0.2, "completeness": 0.4})
    assert "total: got 5, expected '1234.50'" in verdict.evidence and "vendor: missing" in verdict.evidence


def test_invalid_json_says_so_in_the_parts() -> None:
    assert verdict_on("{'a': 1}").parts == {"valid_json": 0.0, "accuracy": 0.0, "completeness": 0.0}


@pytest.mark.parametrize(
    ("form", "language", "expected"),
    [
        ("iso", "en", "2026-03-05"),
        ("day_month", "en", "5 March 2026"),
        ("month_day", "en", "March 5, 2026"),
        ("slash_day_first", "en", "05/03/2026"),
        ("slash_month_first", "en", "03/05/2026"),
        ("day_month", "de", "5. März 2026"),
        ("dotted", "de", "05.03.2026"),
    ],
)
def test_dates_are_written_in_each_form(form: str, language: str, expected: str) -> None:
    assert write_date(date(2026, 3, 5), form, language) == expected


@pytest.mark.parametrize(
    ("marks", "expected"), [((",", "."), "1,234.50"), ((".", ","), "1.234,50"), ((" ", ","), "1 234,50")]
)
def test_amounts_are_written_with_each_pair_of_marks(marks: tuple[str, str], expected: str) -> None:
    assert write_amount(Decimal("1234.50"), marks) == expected


@pytest.mark.parametrize(
    ("currency", "form", "marks", "expected"),
    [
        ("EUR", "symbol", (",", "."), "€7.00"),
        ("EUR", "symbol", (".", ","), "7,00 €"),
        ("CHF", "symbol", (",", "."), "7.00 CHF"),
        ("USD", "before", (",", "."), "USD 7.00"),
        ("USD", "after", (",", "."), "7.00 USD"),
    ],
)
def test_money_carries_its_currency(currency: str, form: str, marks: tuple[str, str], expected: str) -> None:
    assert write_money(Decimal(7), currency, form, marks) == expected


@pytest.mark.parametrize("kind", list(KEYS))
def test_each_kind_has_seen_and_held_out_layouts(kind: str) -> None:
    assert sum(layout.kind == kind for layout in SEEN) >= 4
    assert sum(layout.kind == kind for layout in HELD_OUT) >= 4


def test_no_held_out_layout_is_a_seen_one() -> None:
    def shape(text: str) -> str:
        return re.sub(r"\s+", " ", text.strip().casefold())

    assert len({shape(layout.text) for layout in SEEN + HELD_OUT}) == len(SEEN) + len(HELD_OUT)
    assert not {(one.kind, one.name) for one in HELD_OUT} & {(one.kind, one.name) for one in SEEN}


@pytest.mark.parametrize("layout", SEEN + HELD_OUT, ids=lambda one: f"{one.kind}-{one.name}")
def test_each_layout_states_every_asked_fact_once_and_at_least_two_distractors(layout) -> None:
    facts = {
        "invoice": "number day seller total",
        "order": "number day seller total",
        "contract": "buyer seller day total",
    }
    places = re.findall(r"\{(\w+)\}", layout.text)
    asked = facts[layout.kind].split()
    assert all(places.count(place) == 1 for place in asked)
    assert len(places) >= len(asked) + 2


def test_a_date_with_slashes_states_its_order() -> None:
    domain = open_domain("documents")
    prompts = [domain.task("train", 1, index).messages[0].content for index in range(200)]
    slashed = [text for text in prompts if re.search(r"\d\d/\d\d/\d{4}", text)]
    assert len(slashed) > 20 and all("(DD/MM/YYYY)" in text or "(MM/DD/YYYY)" in text for text in slashed)


@pytest.mark.parametrize(
    ("kind", "name", "line", "key"),
    [
        ("invoice", "labels", "Invoice no.: {}\n", "number"),
        ("invoice", "labels", "Vendor: {}\n", "vendor"),
        ("order", "form", "PURCHASE ORDER {}\n", "number"),
        ("order", "form", "Supplier: {}\n", "supplier"),
        ("contract", "title", "Client: {}\n", "client"),
        ("contract", "title", "Provider: {}\n", "provider"),
    ],
)
def test_the_truth_stands_at_its_label(kind: str, name: str, line: str, key: str) -> None:
    layout = next(one for one in SEEN if (one.kind, one.name) == (kind, name))
    document = fill(layout, Random(1))
    assert line.format(document.truth[key]) in document.text


def test_training_never_draws_a_held_out_layout() -> None:
    domain = open_domain("documents")
    trained = {domain.task("train", 1, index).source for index in range(300)}
    assert trained == {f"documents/{layout.kind}/{layout.name}" for layout in SEEN}


@pytest.mark.parametrize(
    ("eval_on", "expected"), [("held_out", {"held_out"}), ("seen", {"seen"}), ("mixed", {"held_out", "seen"})]
)
def test_eval_draws_the_layouts_that_the_option_names(eval_on: str, expected: set[str]) -> None:
    domain = open_domain("documents", {"eval_on": eval_on})
    tags = {domain.task("eval", 1, index).tags[0].removesuffix("_layout") for index in range(40)}
    assert tags == expected


def test_kinds_leaves_out_the_others() -> None:
    domain = open_domain("documents", {"kinds": ["order"]})
    assert {domain.task("train", 1, index).tags[1] for index in range(20)} == {"order"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layout": 1}, "unknown option 'layout'; known options: eval_on, kinds"),
        ({"eval_on": "all"}, "expected one of: held_out, seen, mixed"),
        ({"kinds": ["letter"]}, "invoice, order, contract"),
        ({"kinds": []}, "invoice, order, contract"),
    ],
)
def test_a_wrong_option_is_refused_with_the_right_ones(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        open_domain("documents", options)


def test_the_gold_of_an_eval_document_is_right_in_every_field() -> None:
    domain = open_domain("documents")
    for index in range(60):
        task = domain.task("eval", 3, index)
        verdict = asyncio.run(domain.verify(task, task.gold or "", None))
        assert verdict.score == 1 and verdict.evidence == "5 of 5 fields right"
