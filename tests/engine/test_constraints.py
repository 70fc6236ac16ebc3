"""Constrained samples: what ends matches, what is recorded is of the constrained distribution, dead ends speak."""

import json
import re
from collections import Counter

import pytest
import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from burnish.chat.template import Chat
from burnish.core.errors import ConfigError
from burnish.engine.local import open_engine
from burnish.engine.params import Constraint
from burnish.engine.sampler import draw
from burnish.engine.shaping import DeadEnd, Vocabulary, open_shaper
from burnish.engine.types import Request, SamplingParams
from burnish.models.load import load_tokenizer
from burnish.models.tiny import tiny_tokenizer
from tests.engine.chi_square import agrees
from tests.fakes import random_model, tiny_chat

SIZE, END = 259, 258


class Answer(BaseModel):
    """What the schema below describes, checked by another library than the one that constrains."""

    model_config = ConfigDict(extra="forbid", strict=True)

    name: str = Field(max_length=6)
    size: int = Field(ge=-20, le=300)
    tags: list[bool | None] = Field(max_length=3)
    inner: "Answer | None" = None


SCHEMA = json.dumps(
    {
        "$ref": "#/$defs/answer",
        "$defs": {
            "answer": {
                "type": "object",
                "properties": {
                    "name": {"type": "string", "maxLength": 6},
                    "size": {"type": "integer", "minimum": -20, "maximum": 300},
                    "tags": {"type": "array", "items": {"type": ["boolean", "null"]}, "maxItems": 3},
                    "inner": {"anyOf": [{"$ref": "#/$defs/answer"}, {"type": "null"}]},
                },
                "required": ["name", "size", "tags"],
                "additionalProperties": False,
            }
        },
    }
)
EXPRESSIONS = 'start: expr\nexpr: term ("+" term)*\nterm: /[0-9]{1,3}/ | "(" expr ")"'


def regex(source, **options):
    return SamplingParams(constraint=Constraint(kind="regex", source=source), **options)


def is_answer(text):
    try:
        Answer.model_validate_json(text)
    except ValidationError:
        return False
    return True


def is_expression(text):
    return re.fullmatch(r"[0-9+()]+", text) is not None and isinstance(eval(re.sub(r"\b0+(?=\d)", "", text)), int)


PATTERN = r"([0-9]{4}-[0-9]{2}|né+|[^\x00-\x7f]{2})x?"
CASES = {
    "json_schema": (SCHEMA, is_answer),
    "regex": (PATTERN, lambda text: re.fullmatch(PATTERN, text) is not None),
    "grammar": (EXPRESSIONS, is_expression),
}


def sample(params, vocabulary, seed, most=400, logits_of=None):
    """Draw from random logits until a stop token; None where the text was cut short."""
    generator = torch.Generator().manual_seed(seed)
    shaper, token_ids, logprobs = open_shaper(params, (1,), vocabulary), [], []
    while len(token_ids) < most:
        logits_V = torch.randn(vocabulary.size, generator=generator) if logits_of is None else logits_of(token_ids)
        shaper.shape(logits_V)
        drawn = draw(logits_V[None], params, torch.rand(1, generator=generator))
        token_ids.append(drawn.token_ids_B.item())
        logprobs.append(drawn.logprobs_B.item())
        shaper.accept(token_ids[-1])
        if token_ids[-1] in vocabulary.chat.stop_ids:
            return token_ids, logprobs
    return None


@pytest.mark.parametrize("kind", CASES)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_every_text_that_ends_matches_over_bytes(kind, temperature):
    source, matches = CASES[kind]
    params = SamplingParams(constraint=Constraint(kind=kind, source=source), temperature=temperature)
    vocabulary = Vocabulary(tiny_chat(), SIZE)
    ended = [done for seed in range(20) if (done := sample(params, vocabulary, seed))]
    texts = [vocabulary.chat.decode(token_ids) for token_ids, _ in ended]
    assert len(texts) >= 15 and len(set(texts)) > 5
    assert [text for text in texts if not matches(text)] == []


def test_every_text_that_ends_matches_over_a_real_vocabulary():
    chat = Chat(load_tokenizer("starter"))
    vocabulary = Vocabulary(chat, 49152)
    hasty = tuple((chat.reply_ids(char)[0], 8.0) for char in '"}][,:17)tn')
    for kind, (source, matches) in CASES.items():
        params = SamplingParams(constraint=Constraint(kind=kind, source=source), logit_bias=hasty)
        ended = [done for seed in range(4) if (done := sample(params, vocabulary, seed, most=100))]
        texts = [chat.decode(token_ids) for token_ids, _ in ended]
        assert len(texts) >= 3, kind
        assert [text for text in texts if not matches(text)] == []


def test_samples_agree_with_the_exact_probabilities_and_say_them():
    """Logits that do not change: a text's probability is the product of its steps', each renormalised."""
    weights = {"a": 1.0, "b": 2.0, "c": 4.0, "d": 30.0}
    logits_V = torch.full((SIZE,), -3.0)
    ids = {char: tiny_chat().reply_ids(char)[0] for char in weights}
    logits_V[list(ids.values())] = torch.tensor(list(weights.values())).log()
    logits_V[END] = 0.0  # a weight of 1
    exact = {"a": 1 / 7 * 1 / 3, "ab": 1 / 7 * 2 / 3, "b": 2 / 7, "cc": 4 / 7}
    params, vocabulary = regex("ab?|b|cc"), Vocabulary(tiny_chat(), SIZE)
    counts = Counter()
    for seed in range(400):
        token_ids, logprobs = sample(params, vocabulary, seed, logits_of=lambda _: logits_V.clone())
        text = vocabulary.chat.decode(token_ids)
        counts[text] += 1
        assert sum(logprobs) == pytest.approx(torch.tensor(exact[text]).log().item(), abs=1e-5)
    assert agrees(counts, exact)


def test_a_text_that_is_complete_can_only_end():
    shaper = open_shaper(regex("ab"), (1,), Vocabulary(tiny_chat(), SIZE))
    for token_id in tiny_chat().reply_ids("ab")[:-1]:
        shaper.accept(token_id)
    logits_V = torch.zeros(SIZE)
    shaper.shape(logits_V)
    assert logits_V.isfinite().nonzero().flatten().tolist() == [END]


def test_a_text_that_may_end_may_also_go_on_and_all_stop_tokens_end_it():
    tokenizer = tiny_tokenizer()
    tokenizer.eos_token = "<|pad|>"
    chat = Chat(tokenizer)
    shaper = open_shaper(regex("a+"), (1,), Vocabulary(chat, SIZE))
    [a, _] = chat.reply_ids("a")
    for expected in ([a], [a, 256, END]):
        logits_V = torch.zeros(SIZE)
        shaper.shape(logits_V)
        assert logits_V.isfinite().nonzero().flatten().tolist() == expected
        shaper.accept(a)


def test_control_tokens_are_not_text():
    logits_V = torch.zeros(SIZE)
    open_shaper(regex("(?s:.*)"), (1,), Vocabulary(tiny_chat(), SIZE)).shape(logits_V)
    assert logits_V[[256, 257]].isinf().all() and logits_V[END].isfinite()


def test_logits_beyond_the_tokenizer_are_never_drawn():
    logits_V = torch.zeros(300)
    open_shaper(regex("(?s:.*)"), (1,), Vocabulary(tiny_chat(), 300)).shape(logits_V)
    assert logits_V[SIZE:].isinf().all()


def test_samples_of_one_constraint_do_not_disturb_each_other():
    vocabulary, params = Vocabulary(tiny_chat(), SIZE), regex("abc|xyz")
    one, other = open_shaper(params, (1,), vocabulary), open_shaper(params, (1,), vocabulary)
    one.accept(tiny_chat().reply_ids("a")[0])
    logits_V = torch.zeros(SIZE)
    other.shape(logits_V)
    assert logits_V.isfinite().sum() == 2


def test_a_text_that_no_token_continues_is_an_error_in_words():
    a, end = tiny_chat().reply_ids("a")
    shaper = open_shaper(regex("ab", allowed_tokens=frozenset({a, end})), (1,), Vocabulary(tiny_chat(), SIZE))
    shaper.shape(torch.zeros(SIZE))
    shaper.accept(a)
    with pytest.raises(DeadEnd, match="after 1 tokens, no token is both allowed and able"):
        shaper.shape(torch.zeros(SIZE))


def test_a_token_that_breaks_the_constraint_is_an_error_in_words():
    shaper = open_shaper(regex("ab"), (1,), Vocabulary(tiny_chat(), SIZE))
    with pytest.raises(DeadEnd, match="number 0 of the sample, breaks the regex 'ab'"):
        shaper.accept(tiny_chat().reply_ids("x")[0])


@pytest.mark.parametrize(
    ("kind", "source", "message"),
    [
        ("json_schema", '{"type": "objekt"}', "Invalid type: objekt; give one JSON Schema"),
        ("json_schema", '{"type"', "delimiter: line 1 column 8 .*; give one JSON Schema"),
        ("json_schema", "[]", "must be an object or boolean"),
        ("json_schema", "false", "Unsatisfiable"),
        ("json_schema", '{"$ref": "https://example.org/schema"}', "without references to other documents"),
        ("json_schema", '{"type": "string", "format": "zip"}', "Unknown format: zip"),
        ("regex", "[", "invalid regex .*; give a pattern"),
        ("regex", "a(?=b)", "invalid regex .*without look-around"),
        ("regex", r"(a)\1", "invalid regex .*back-references"),
        ("grammar", 'start: "a" rest', 'unknown name: "rest"'),
        ("grammar", 'begin: "a"', "no start rule found; give rules"),
        ("grammar", "", "Empty grammar"),
    ],
)
def test_a_constraint_that_is_none_is_refused(kind, source, message):
    params = SamplingParams(constraint=Constraint(kind=kind, source=source))
    with pytest.raises(ConfigError, match=f"the {kind} .*cannot be used: .*{message}"):
        open_shaper(params, (1,), Vocabulary(tiny_chat(), SIZE))


def _engine():
    chat = tiny_chat()
    return open_engine(random_model("llama"), chat, max_rows=8, version=lambda: 0)


def test_an_engine_keeps_the_constraint_of_each_request_beside_free_ones():
    params = [regex("(yes|no)!?"), SamplingParams(max_new_tokens=12), regex("[0-9]{3}")]
    requests = [Request(prompt_ids=(1, 2, 3), seed=i, num_samples=4, params=p) for i, p in enumerate(params)]
    texts = {0: [], 1: [], 2: []}
    for done in _engine().sample(requests):
        texts[done.request].append(done.completion.text)
        assert done.request == 1 or done.completion.stop_reason == "eos"
    assert all(re.fullmatch("(yes|no)!?", text) for text in texts[0])
    assert all(re.fullmatch("[0-9]{3}", text) for text in texts[2])
    alone = {d.sample: d.completion.text for d in _engine().sample([requests[1]])}
    assert sorted(texts[1]) == sorted(alone.values())


def test_an_engine_cuts_an_unfinished_text_and_says_so():
    [done] = _engine().sample([Request(prompt_ids=(1, 2), seed=0, params=regex("[0-9]{30}", max_new_tokens=5))])
    assert done.completion.stop_reason == "length" and re.fullmatch("[0-9]{5}", done.completion.text)


def test_an_engine_raises_what_a_sample_died_of():
    [a, end] = tiny_chat().reply_ids("a")
    params = regex("ab", allowed_tokens=frozenset({a, end}))
    with pytest.raises(DeadEnd, match="after 1 tokens"):
        list(_engine().sample([Request(prompt_ids=(1, 2), seed=0, params=params)]))
