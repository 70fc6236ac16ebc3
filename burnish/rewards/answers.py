"""The registry of verifiers: `verifier(name, options)` gives what judges a reply against a truth.

| name | truth | options |
|---|---|---|
| `exact` | a string | `ignore_case`, `ignore_space` |
| `number` | a number, or a string that is one | `tolerance` (absolute, default 0) |
| `choice` | a label such as `B` | `labels` (default A to E) |
| `regex` | a pattern, if the options give none | `pattern`, `match` = `whole` or `anywhere` |
| `json` | any JSON value | |
| `json_fields` | an object of fields | `fields`: the kind of each (`text` where none is given) |
| `math` | an expression, LaTeX or plain | `second_opinion` (default false) |
| `tool_call` | a call, a list of them, or null | `tools` (a JSON Schema of the arguments of each), `in_order` |

Decisions: options and truths are checked when tasks are loaded, so `judge` answers `scored`: a reply is right
or wrong, never an error; but for `math`, whose answer may be `unscorable` (undecided). Evidence says what was read.
A verifier that wants a sandbox has `judge_in_box` too; one that another implementation can check has `audit`.
Thinking (`<think>...</think>`) is no part of an answer, and not closed it leaves none; `regex` alone sees it.
`regex` runs on RE2, which takes linear time whatever the pattern; look-around and back-references are refused.
Covered: replies of any length and content (lone surrogates included) in bounded time.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Literal

from pydantic import Field, JsonValue

from burnish.core.config import Strict, validate
from burnish.core.errors import ConfigError
from burnish.core.types import Json, Verdict
from burnish.rewards import fields, linear_regex, strict_json
from burnish.rewards.choices import chosen
from burnish.rewards.fields import Kind
from burnish.rewards.final_number import final_number, is_same_number
from burnish.rewards.math import judging, second_opinion
from burnish.rewards.numbers import Number, single
from burnish.rewards.thinking import CLOSING, OPENING, after_thinking
from burnish.rewards.tool_calls import BrokenCall, calls_of_truth, judge_calls
from burnish.sandbox import Box

MOST_SHOWN = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Verifier:
    """A named judge. `fault` says why a truth cannot serve (empty if it can); a truth may itself be a right reply.

    `judge_in_box`, where there is one, asks further means in a sandbox when `judge` alone does not decide. `audit`
    judges by other means altogether; None where they do not apply.
    """

    name: str
    fault: Callable[[Json], str]
    judge: Callable[[Json, str], Verdict]
    truth_is_a_reply: bool = True
    judge_in_box: Callable[[Json, str, Box], Awaitable[Verdict]] | None = None
    audit: Callable[[Json, str, Box], Awaitable[Verdict | None]] | None = None


class Exact(Strict):
    """Options of `exact`."""

    ignore_case: bool = False
    ignore_space: bool = False


class NumberOptions(Strict):
    """Options of `number`."""

    tolerance: float = Field(default=0.0, ge=0)


class Choice(Strict):
    """Options of `choice`."""

    labels: list[str] = Field(default=["A", "B", "C", "D", "E"], min_length=2)


class Regex(Strict):
    """Options of `regex`."""

    pattern: str | None = None
    match: Literal["whole", "anywhere"] = "whole"


class Nothing(Strict):
    """`json` takes no options."""


class JsonFields(Strict):
    """Options of `json_fields`."""

    fields: dict[str, Kind] = {}


class Math(Strict):
    """Options of `math`."""

    second_opinion: bool = False


class ToolCall(Strict):
    """Options of `tool_call`."""

    tools: dict[str, dict[str, JsonValue]] = {}
    in_order: bool = False


def verifier(name: str, options: Mapping[str, Json] | None = None) -> Verifier:
    """Find a verifier by name; `ConfigError` for an unknown name or option."""
    if name not in VERIFIERS:
        raise ConfigError(f"no verifier {name!r}; there are: {', '.join(VERIFIERS)}")
    made = VERIFIERS[name](options or {})
    if name in READ_THINKING:
        return made
    judge = made.judge if name in LEAVE_THINKING_OUT else partial(_judge_after_thinking, made.judge)
    return replace(made, judge=judge, fault=partial(_fault_of_thinking, made.fault))


def _fault_of_thinking(fault: Callable[[Json], str], truth: Json) -> str:
    complaint = fault(truth)
    text = "" if complaint else truth if isinstance(truth, str) else json.dumps(truth)
    if OPENING in text or CLOSING in text:
        return f"{brief(truth)} has {OPENING} or {CLOSING} in it, which no answer has"
    return complaint


def _judge_after_thinking(judge: Callable[[Json, str], Verdict], truth: Json, reply: str) -> Verdict:
    said = after_thinking(reply)
    if said is None:
        return Verdict.scored(0.0, evidence="thinking that is not closed holds no answer")
    return judge(truth, said)


def _exact(options: Mapping[str, Json]) -> Verifier:
    config = validate(Exact, options, "verifier 'exact'")
    return Verifier(name="exact", fault=_is_string, judge=partial(_judge_exact, config))


def _judge_exact(config: Exact, truth: Json, reply: str) -> Verdict:
    def form(text: str) -> str:
        text = " ".join(text.split()) if config.ignore_space else text.strip()
        return strict_json.text_of(text).casefold() if config.ignore_case else strict_json.text_of(text)

    return _right_or_wrong(form(str(truth)) == form(reply), shown=reply.strip(), truth=truth)


def _number(options: Mapping[str, Json]) -> Verifier:
    config = validate(NumberOptions, options, "verifier 'number'")
    audit = None if config.tolerance else _audit_number
    return Verifier(name="number", fault=_number_fault, judge=partial(_judge_number, config), audit=audit)


async def _audit_number(truth: Json, reply: str, box: Box) -> Verdict | None:
    """Read and compare as `math` does, whose reading shares nothing with that of `number`."""
    verdict = judging.judge(str(truth), reply)
    return verdict if verdict.kind == "scored" else None


def _number_fault(truth: Json) -> str:
    return "" if _true_number(truth) else f"{brief(truth)} is no number"


def _true_number(truth: Json) -> Number | None:
    return None if isinstance(truth, bool | list | dict) or truth is None else single(str(truth))


def _judge_number(config: NumberOptions, truth: Json, reply: str) -> Verdict:
    expected, answer = _true_number(truth), final_number(reply)
    assert expected is not None
    if answer is None or answer.value is None or expected.value is None:
        return Verdict.scored(0.0, evidence="the reply gives no single final number")
    is_near = abs(answer.value - expected.value) <= Fraction(str(config.tolerance))
    return _right_or_wrong(is_near or is_same_number(expected, answer), shown=answer.text, truth=truth)


def _choice(options: Mapping[str, Json]) -> Verifier:
    labels = validate(Choice, options, "verifier 'choice'").labels

    def fault(truth: Json) -> str:
        return "" if truth in labels else f"{brief(truth)} is none of the labels {', '.join(labels)}"

    def judge(truth: Json, reply: str) -> Verdict:
        label = chosen(reply, labels)
        if label is None:
            return Verdict.scored(0.0, evidence="the reply chooses no single label")
        return _right_or_wrong(label == truth, shown=label, truth=truth)

    return Verifier(name="choice", fault=fault, judge=judge)


def _regex(options: Mapping[str, Json]) -> Verifier:
    config = validate(Regex, options, "verifier 'regex'")
    if config.pattern is not None and (complaint := linear_regex.fault(config.pattern)):
        raise ConfigError(f"verifier 'regex': {complaint}")

    def fault(truth: Json) -> str:
        return "" if config.pattern is not None else _is_string(truth) or linear_regex.fault(str(truth))

    def judge(truth: Json, reply: str) -> Verdict:
        pattern = config.pattern if config.pattern is not None else str(truth)
        is_match = linear_regex.matches(pattern, reply.strip(), whole=config.match == "whole")
        return Verdict.scored(float(is_match), evidence=f"{'matches' if is_match else 'does not match'} {pattern!r}")

    return Verifier(name="regex", fault=fault, judge=judge, truth_is_a_reply=False)


def _json(options: Mapping[str, Json]) -> Verifier:
    validate(Nothing, options, "verifier 'json'")
    return Verifier(name="json", fault=_json_fault, judge=_judge_json)


def _json_fault(truth: Json) -> str:
    try:
        strict_json.from_python(truth)
    except strict_json.InvalidJson as error:
        return str(error)
    return ""


def _judge_json(truth: Json, reply: str) -> Verdict:
    try:
        value = strict_json.parse_reply(reply)
    except strict_json.InvalidJson as error:
        return Verdict.scored(0.0, {"valid_json": 0.0}, f"invalid JSON: {error}")
    is_right = strict_json.is_equal(strict_json.from_python(truth), value)
    return Verdict.scored(float(is_right), {"valid_json": 1.0}, "equal" if is_right else "valid JSON of another value")


def _json_fields(options: Mapping[str, Json]) -> Verifier:
    kinds = validate(JsonFields, options, "verifier 'json_fields'").fields

    def judge(truth: Json, reply: str) -> Verdict:
        expected = strict_json.from_python(truth)
        assert isinstance(expected, Mapping)
        return fields.judge_fields(expected, kinds, reply)

    return Verifier(name="json_fields", fault=partial(_fields_fault, kinds), judge=judge)


def _fields_fault(kinds: Mapping[str, Kind], truth: Json) -> str:
    if not isinstance(truth, dict) or not truth:
        return f"{brief(truth)} is no object of fields"
    if complaint := _json_fault(truth):
        return complaint
    expected = strict_json.from_python(truth)
    assert isinstance(expected, Mapping)
    faults = {name: fields.fault(kinds.get(name, "text"), value) for name, value in expected.items()}
    return "; ".join(f"{name}: {complaint}" for name, complaint in faults.items() if complaint)


def _math(options: Mapping[str, Json]) -> Verifier:
    config = validate(Math, options, "verifier 'math'")
    return Verifier(
        name="math",
        fault=judging.fault,
        judge=judging.judge,
        judge_in_box=second_opinion.judge_math if config.second_opinion else None,
        audit=second_opinion.audit,
    )


def _tool_call(options: Mapping[str, Json]) -> Verifier:
    config = validate(ToolCall, options, "verifier 'tool_call'")
    tools = {name: strict_json.mapping(strict_json.from_python(schema)) for name, schema in config.tools.items()}

    def fault(truth: Json) -> str:
        try:
            calls_of_truth(truth)
        except BrokenCall as error:
            return f"{brief(truth)} is no call: {error}"
        return ""

    def judge(truth: Json, reply: str) -> Verdict:
        return judge_calls(calls_of_truth(truth), tools, reply, in_order=config.in_order)

    return Verifier(name="tool_call", fault=fault, judge=judge)


def _is_string(truth: Json) -> str:
    return "" if isinstance(truth, str) else f"{brief(truth)} is no string"


def _right_or_wrong(is_right: bool, *, shown: str, truth: Json) -> Verdict:
    evidence = f"read {brief(shown)}" if is_right else f"read {brief(shown)}, expected {brief(truth)}"
    return Verdict.scored(float(is_right), evidence=evidence)


def brief(value: Json) -> str:
    """A value as one short line of ASCII."""
    shown = ascii(value[:MOST_SHOWN] if isinstance(value, str) else value)
    return shown if len(shown) <= MOST_SHOWN else shown[: MOST_SHOWN - 3] + "..."


READ_THINKING = ("regex", "math")
"""A pattern may ask for it, and a truth of `math` may be a whole reply."""
LEAVE_THINKING_OUT = ("json", "json_fields")
"""They do so by themselves."""
VERIFIERS: Mapping[str, Callable[[Mapping[str, Json]], Verifier]] = {
    "exact": _exact,
    "number": _number,
    "choice": _choice,
    "regex": _regex,
    "json": _json,
    "json_fields": _json_fields,
    "math": _math,
    "tool_call": _tool_call,
}
