"""What stands in a business document: the facts, and how a document writes them.

A `Layout` is a text with places; `fill` draws the facts and a way to write dates and amounts, fills the
places, and gives the truth beside the text. Every layout mixes the asked facts with others of the same form
(subtotals, a second company, a second date, telephone and tax numbers), so that copying the first
number that fits is not enough.

Decisions: a date in digits with slashes states its order beside it, for without that it has none;
only the amount that is asked for carries the currency; amounts in the truth are strings of decimals.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import ROUND_HALF_UP, Decimal
from random import Random
from typing import Literal

Kind = Literal["invoice", "order", "contract"]
Language = Literal["en", "de"]

KEYS: Mapping[Kind, tuple[str, ...]] = {
    "invoice": ("number", "date", "vendor", "currency", "total"),
    "order": ("number", "supplier", "delivery", "currency", "total"),
    "contract": ("client", "provider", "start", "currency", "fee"),
}
DATE_KEYS = frozenset({"date", "delivery", "start"})
AMOUNT_KEYS = frozenset({"total", "fee"})

NAMES = (
    "Nordwind Blue River Silver Oak Alder Harbor Summit Delta Maple Stone Bright Falcon Cedar Lumen Orchid Castle "
    "Amber Vega Polar Coral Tiger Willow Granite Meadow Atlas Comet Heron Juniper Solar Velvet"
).split()
TRADES = "Foods Tools Print Paper Design Energy Media Logistics Textiles Systems Garden Glass Motors Books".split()
FORMS: Mapping[Language, tuple[str, ...]] = {"en": ("Ltd", "Inc", "LLC", "GmbH", "Co"), "de": ("GmbH", "AG", "KG")}
CITIES = "Leeds Boston Lyon Basel Dublin Bremen Oslo Porto Austin Graz".split()
ITEMS = "chairs lamps desks cables filters pumps boxes labels".split()
SERVICES = "cleaning,hosting,translation,security,catering,accounting".split(",")
MONTHS: Mapping[Language, tuple[str, ...]] = {
    "en": tuple("January February March April May June July August September October November December".split()),
    "de": tuple("Januar Februar März April Mai Juni Juli August September Oktober November Dezember".split()),
}
SYMBOLS: Mapping[str, str] = {"USD": "$", "EUR": "€", "GBP": "£", "INR": "₹", "CHF": "CHF", "CAD": "CAD", "SEK": "SEK"}
CURRENCIES: Mapping[Language, tuple[str, ...]] = {
    "en": ("USD", "EUR", "GBP", "USD", "EUR", "GBP", "INR", "CHF", "CAD", "SEK"),
    "de": ("EUR", "EUR", "CHF"),
}
DATE_FORMS: Mapping[Language, tuple[str, ...]] = {
    "en": ("iso", "day_month", "month_day", "slash_day_first", "slash_month_first"),
    "de": ("day_month", "dotted"),
}
THOUSANDS: Mapping[Language, tuple[tuple[str, str], ...]] = {
    "en": ((",", "."), (",", "."), (".", ","), (" ", ",")),
    "de": ((".", ","),),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """One way to arrange a document of one kind; `text` has the places that `fill` fills."""

    name: str
    kind: Kind
    text: str
    language: Language = "en"


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A filled layout and what is true of it; values are strings in the form that is asked for."""

    text: str
    truth: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Amounts:
    """What is charged."""

    net: Decimal
    rate: int
    tax: Decimal
    gross: Decimal


def fill(layout: Layout, rng: Random) -> Document:
    """Draw facts and fill the layout; equal states of `rng` give equal documents."""
    language = layout.language
    currency = rng.choice(CURRENCIES[language])
    seller, buyer = _companies(language, rng)
    day = date(2024, 1, 1) + timedelta(days=rng.randrange(4 * 365))
    charged = _amounts(rng)
    number = _number(rng)
    places = {
        "seller": seller,
        "buyer": buyer,
        "number": number,
        **_written_dates(day, language, rng),
        **_written_amounts(charged, currency, language, rng),
        **_asides(rng),
    }
    facts = (number, seller, buyer, day.isoformat(), currency, str(charged.gross))
    return Document(text=layout.text.strip().format(**places), truth=_truth(layout.kind, *facts))


def _written_dates(day: date, language: Language, rng: Random) -> Mapping[str, str]:
    form = rng.choice(DATE_FORMS[language])
    gap = timedelta(days=rng.choice((7, 14, 21, 30, 45)))
    return {
        "day": write_date(day, form, language) + _order_note(form),
        "earlier": write_date(day - gap, form, language),
        "later": write_date(day + gap, form, language),
    }


def _written_amounts(charged: Amounts, currency: str, language: Language, rng: Random) -> Mapping[str, str]:
    marks = rng.choice(THOUSANDS[language])
    form = rng.choice(("symbol", "symbol", "before", "after"))
    return {
        "total": write_money(charged.gross, currency, form, marks),
        "net": write_amount(charged.net, marks),
        "tax": write_amount(charged.tax, marks),
        "rate": str(charged.rate),
    }


def _asides(rng: Random) -> Mapping[str, str]:
    """What nobody asks for."""
    return {
        "phone": _digits(rng, "0## ### ###"),
        "tax_id": _digits(rng, "##-######"),
        "reference": _digits(rng, "######"),
        "count": str(rng.randint(2, 90)),
        "months": str(rng.choice((6, 12, 18, 24, 36))),
        "page": str(rng.randint(2, 5)),
        "city": rng.choice(CITIES),
        "item": rng.choice(ITEMS),
        "service": rng.choice(SERVICES),
    }


def _truth(kind: Kind, number: str, seller: str, buyer: str, day: str, currency: str, total: str) -> Mapping[str, str]:
    values: Mapping[Kind, tuple[str, ...]] = {
        "invoice": (number, day, seller, currency, total),
        "order": (number, seller, day, currency, total),
        "contract": (buyer, seller, day, currency, total),
    }
    return dict(zip(KEYS[kind], values[kind], strict=True))


def write_date(day: date, form: str, language: Language) -> str:
    """Write a date in one of the `DATE_FORMS`."""
    month = MONTHS[language][day.month - 1]
    match form:
        case "iso":
            return day.isoformat()
        case "day_month":
            return f"{day.day}{'.' if language == 'de' else ''} {month} {day.year}"
        case "month_day":
            return f"{month} {day.day}, {day.year}"
        case "slash_day_first":
            return f"{day.day:02}/{day.month:02}/{day.year}"
        case "slash_month_first":
            return f"{day.month:02}/{day.day:02}/{day.year}"
        case "dotted":
            return f"{day.day:02}.{day.month:02}.{day.year}"
        case _:
            raise AssertionError(form)


def _order_note(form: str) -> str:
    return {"slash_day_first": " (DD/MM/YYYY)", "slash_month_first": " (MM/DD/YYYY)"}.get(form, "")


def write_amount(amount: Decimal, marks: tuple[str, str]) -> str:
    """Write an amount with a thousands mark and a decimal mark."""
    thousands, point = marks
    whole, _, cents = f"{amount:,.2f}".partition(".")
    return whole.replace(",", thousands) + point + cents


def write_money(amount: Decimal, currency: str, form: str, marks: tuple[str, str]) -> str:
    """Write an amount with its currency: as a symbol, or as a code before or after."""
    text = write_amount(amount, marks)
    symbol = SYMBOLS[currency]
    if form == "symbol" and symbol != currency:
        return f"{symbol}{text}" if marks[1] == "." else f"{text} {symbol}"
    return f"{currency} {text}" if form == "before" else f"{text} {currency}"


def _companies(language: Language, rng: Random) -> tuple[str, str]:
    first, second = rng.sample(NAMES, 2)
    trades = rng.sample(TRADES, 2)
    forms = FORMS[language]
    return f"{first} {trades[0]} {rng.choice(forms)}", f"{second} {trades[1]} {rng.choice(forms)}"


def _amounts(rng: Random) -> Amounts:
    net = Decimal(rng.randint(10_000, 900_000)) / 100
    rate = rng.choice((5, 10, 19, 20))
    tax = (net * rate / 100).quantize(Decimal("0.01"), rounding=ROUND_HALF_UP)
    return Amounts(net=net, rate=rate, tax=tax, gross=net + tax)


def _number(rng: Random) -> str:
    return _digits(rng, rng.choice(("A-####", "INV-###", "PO ####", "R####", "##-K###", "N/###")))


def _digits(rng: Random, pattern: str) -> str:
    return "".join(str(rng.randrange(10)) if mark == "#" else mark for mark in pattern)
