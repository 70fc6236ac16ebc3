"""Constraints on a sample's whole text: JSON Schema, regular expression, context-free grammar. The door to llguidance.

After each token llguidance says which tokens can still lead to a text that matches; the others get -inf. Where the
text matches, stop tokens are among them; where it can only end, they are alone. Control tokens never match text.

Decisions: a grammar is compiled once and each sample copies its beginning; stop tokens are the chat's, all of them.
A sample that `max_new_tokens` cuts short does not match: its stop reason says so. A text that no token continues
raises `DeadEnd`.

Covered: any fast tokenizer, logits wider than the tokenizer's vocabulary. Not covered: look-around in patterns,
schemas that refer to other documents; both are refused. Keywords that JSON Schema does not know are ignored, as
the specification wants.
"""

import json
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from llguidance import LLMatcher, LLTokenizer
from torch import Tensor

from burnish.chat.template import Chat
from burnish.core.errors import ConfigError
from burnish.engine.params import Constraint, ConstraintKind
from burnish.engine.shaping import Compiled, DeadEnd, Shaper

_GRAMMAR_OF: dict[ConstraintKind, Callable[[str], str]] = {
    "json_schema": LLMatcher.grammar_from_json_schema,
    "regex": LLMatcher.grammar_from_regex,
    "grammar": LLMatcher.grammar_from_lark,
}
_WAY_OUT: dict[ConstraintKind, str] = {
    "json_schema": "give one JSON Schema (draft 2020-12) as JSON text, without references to other documents",
    "regex": "give a pattern in the syntax of Rust's regex crate, without look-around and back-references",
    "grammar": "give rules as `name: ...` in Lark's syntax, beginning with `start: ...`",
}
_MOST_QUOTED = 80
# A byte of llguidance's mask has a bit for each of eight tokens: 0 where it can follow, else -inf. Adding a row for
# each byte takes a seventh of the time of filling where a mask says so.
_PENALTY_OF_BYTE = np.where(
    np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little"),
    np.float32(0),
    -np.float32(np.inf),
)


def compiler(chat: Chat, vocab_size: int) -> Callable[[Constraint], Compiled]:
    """Prepare a tokenizer's tokens; returns what compiles constraints over them."""
    tokens = LLTokenizer(chat.tokenizer_json(), n_vocab=vocab_size, eos_token=sorted(chat.stop_ids))

    def compile_one(constraint: Constraint) -> Compiled:
        if constraint.kind == "json_schema":
            _check_json(constraint)
        grammar = _GRAMMAR_OF[constraint.kind](constraint.source)
        is_wrong, faults = LLMatcher.validate_grammar_with_warnings(grammar, tokens)
        if is_wrong:
            raise _refusal(constraint, faults[0])
        return _Compiled(constraint, LLMatcher(tokens, grammar, log_level=0), vocab_size)

    return compile_one


def _check_json(constraint: Constraint) -> None:
    try:
        json.loads(constraint.source)
    except json.JSONDecodeError as error:
        raise _refusal(constraint, str(error)) from None


def _refusal(constraint: Constraint, fault: str) -> ConfigError:
    return ConfigError(f"the {_title(constraint)} cannot be used: {_first_line(fault)}; {_WAY_OUT[constraint.kind]}")


class _Compiled(NamedTuple):
    constraint: Constraint
    beginning: LLMatcher
    vocab_size: int

    def open(self) -> Shaper:
        return _Matching(self.constraint, self.beginning.deep_copy(), self.vocab_size)


class _Matching:
    """One sample against its constraint."""

    def __init__(self, constraint: Constraint, matcher: LLMatcher, vocab_size: int) -> None:
        self._constraint, self._matcher, self._vocab_size = constraint, matcher, vocab_size
        self._num_accepted = 0

    def shape(self, logits_V: Tensor) -> None:
        bits = np.frombuffer(self._matcher.compute_bitmask(), dtype=np.uint8)
        if self._matcher.is_error() or not bits.any():
            raise DeadEnd(
                f"the sample cannot go on after {self._num_accepted} tokens under the {_title(self._constraint)}: "
                f"{_first_line(self._matcher.get_error()) or 'no token of the model continues it'}; "
                "loosen the constraint, or spell it in characters that the model's tokens have"
            )
        penalty_V = np.take(_PENALTY_OF_BYTE, bits, axis=0).reshape(-1)[: self._vocab_size]
        logits_V.add_(torch.from_numpy(penalty_V).to(logits_V.device))

    def accept(self, token_id: int) -> None:
        if not self._matcher.consume_token(token_id):
            raise DeadEnd(
                f"token {token_id}, number {self._num_accepted} of the sample, breaks the {_title(self._constraint)}: "
                "only tokens that were drawn from shaped logits can be accepted"
            )
        self._num_accepted += 1


def _title(constraint: Constraint) -> str:
    source = constraint.source
    return f"{constraint.kind} {source if len(source) <= _MOST_QUOTED else source[:_MOST_QUOTED] + '…'!r}"


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]
