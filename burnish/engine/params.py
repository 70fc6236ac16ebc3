"""How a token is drawn, and which options fit together. No torch here.

Order: repetition penalty, presence and frequency penalties, logit bias, allowed tokens, constraint (all in
`shaping`, on logits), then temperature, top-k, top-p, min-p (in `sampler`, on probabilities, each on the
renormalised rest). An option that would do nothing is refused, so that a recipe says what happens.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from burnish.core.errors import ConfigError

ConstraintKind = Literal["json_schema", "regex", "grammar"]

MOST_TOP_LOGPROBS = 20
_LEAST_TEMPERATURE = 1e-3  # below it, logits divided by it overflow; the draw is greedy long before
_LEAST_TOP_P = 1e-6  # it is compared in float32, where a number far below counts as 0
_MOST = 1e9  # in float32, sums over a sample of numbers up to it stay finite


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraint:
    """What the whole text of a sample must match.

    `source` is a JSON Schema as JSON text, a regular expression (anchored at both ends), or a context-free
    grammar in llguidance's variant of Lark.
    """

    kind: ConstraintKind
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """How to draw a token. Temperature 0 is greedy (its log-probabilities are of the unscaled softmax).

    A sample ends with a stop token, or with the first stop string in its text; the tokens that completed
    the string are kept, the text is cut before it. The defaults draw from softmax(logits).
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    max_new_tokens: int = 128
    stop: tuple[str, ...] = ()
    repetition_penalty: float = 1.0
    """Divides positive and multiplies negative logits of tokens of the prompt and the sample; 1 is off."""
    presence_penalty: float = 0.0
    """Taken once from the logits of tokens that were sampled before."""
    frequency_penalty: float = 0.0
    """Taken from a token's logit as many times as it was sampled before."""
    logit_bias: tuple[tuple[int, float], ...] = ()
    """Added to the logits of these tokens."""
    allowed_tokens: frozenset[int] | None = None
    """No other token is drawn. A sample can end itself only if a stop token is among them."""
    constraint: Constraint | None = None
    top_logprobs: int = 0
    """How many of the most probable tokens are reported beside each sampled one."""

    def __post_init__(self) -> None:
        faults = [*_out_of_range(self), *_without_effect(self)]
        if faults:
            raise ConfigError("sampling options: " + "; ".join(faults))

    @property
    def is_shaped(self) -> bool:
        """Whether logits are changed before the temperature, by what a row has said so far or by a fixed rule."""
        return (
            self.repetition_penalty != 1
            or bool(self.presence_penalty or self.frequency_penalty or self.logit_bias)
            or self.allowed_tokens is not None
            or self.constraint is not None
        )

    @property
    def is_trainable(self) -> bool:
        """Whether tokens are drawn from softmax(logits / temperature), which a learner can compute again."""
        return self.temperature > 0 and not self.is_shaped and not _filters(self)


def _out_of_range(p: SamplingParams) -> Iterator[str]:
    ranges = [
        (p.temperature == 0 or _LEAST_TEMPERATURE <= p.temperature <= _MOST, "temperature", p.temperature,
         f"0 (greedy), or {_LEAST_TEMPERATURE} to {_MOST:g}"),
        (_LEAST_TOP_P <= p.top_p <= 1, "top_p", p.top_p,
         f"{_LEAST_TOP_P} to 1 (1 is off); for the most probable token say temperature 0"),
        (p.top_k >= 0, "top_k", p.top_k, "0 (off) or more"),
        (0 <= p.min_p <= 1, "min_p", p.min_p, "between 0 (off) and 1"),
        (p.max_new_tokens >= 1, "max_new_tokens", p.max_new_tokens, "1 or more"),
        (all(p.stop) and not _is_text(p.stop), "stop", p.stop, 'a tuple of strings that are not empty, such as ("x",)'),
        (0 <= p.top_logprobs <= MOST_TOP_LOGPROBS, "top_logprobs", p.top_logprobs, f"0 to {MOST_TOP_LOGPROBS}"),
        (1 <= p.repetition_penalty <= _MOST, "repetition_penalty", p.repetition_penalty,
         f"1 (off) to {_MOST:g}; what rewards tokens is a positive logit_bias"),
        (0 <= p.presence_penalty <= _MOST, "presence_penalty", p.presence_penalty,
         f"0 (off) to {_MOST:g}; what rewards tokens is a positive logit_bias"),
        (0 <= p.frequency_penalty <= _MOST, "frequency_penalty", p.frequency_penalty,
         f"0 (off) to {_MOST:g}; what rewards tokens is a positive logit_bias"),
        (all(abs(bias) <= _MOST for _, bias in p.logit_bias), "logit_bias", p.logit_bias,
         f"numbers from -{_MOST:g} to {_MOST:g}; to ban tokens, list the others in allowed_tokens, or give them "
         "a bias of -1e9"),
        (len({token_id for token_id, _ in p.logit_bias}) == len(p.logit_bias), "logit_bias", p.logit_bias,
         "one bias a token"),
        (p.allowed_tokens is None or len(p.allowed_tokens) > 0, "allowed_tokens", "an empty set",
         "at least one token, or None to allow all"),
    ]  # fmt: skip
    for holds, name, got, expected in ranges:
        if not holds:
            yield f"{name} is {got!r}, expected {expected}"


def _is_text(stop: object) -> bool:
    """Whether a string was given for a tuple of strings, each of whose characters would end a sample."""
    return isinstance(stop, str)


def _without_effect(p: SamplingParams) -> Iterator[str]:
    if p.temperature == 0:
        for name in _filters(p):
            yield (
                f"temperature 0 takes the most probable token, so that {name} does nothing; "
                f"leave {name} out, or set a temperature above 0"
            )
    if p.allowed_tokens:
        for token_id, _ in p.logit_bias:
            if token_id not in p.allowed_tokens:
                yield f"logit_bias of token {token_id} does nothing outside allowed_tokens; leave one of them out"


def _filters(p: SamplingParams) -> list[str]:
    """The filters that are on."""
    return [name for name, is_on in (("top_p", p.top_p < 1), ("top_k", p.top_k > 0), ("min_p", p.min_p > 0)) if is_on]
