"""A program for an interpreter that has vLLM: the engine in this process, over the model in a folder, as JSON.

`test_vllm_inside.py` reads what it prints. It opens the engine (which proves that log-probabilities are those sampled
from), samples greedily and by seed, moves all weights but the tied embedding, and samples again.
"""

import copy
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict

import torch
from transformers import PreTrainedModel

from burnish.chat.template import Chat
from burnish.core.types import Message
from burnish.engine import vllm
from burnish.engine.params import SamplingParams
from burnish.engine.types import Finished, Request
from burnish.models.load import load

WORDS = ("Name a colour.", "Count to three.")
ARGUMENTS = {"dtype": "float32", "enforce_eager": True, "max_model_len": 512, "max_num_seqs": 8, "seed": 0}


def main() -> None:
    """Sample, move, sample."""
    folder, version = sys.argv[1], [0]
    loaded = load(folder, dtype="float32")
    chat = Chat(loaded.tokenizer)
    prompts = [chat.prompt_ids([Message(role="user", content=word)]) for word in WORDS]
    options = {"in_process": True, "model": folder, "engine_args": ARGUMENTS, "tolerance": 0.05}
    engine = vllm.open_engine(loaded.model, chat, max_rows=8, version=lambda: version[0], options=options)
    try:
        greedy = SamplingParams(temperature=0, max_new_tokens=8)
        requests = [
            *(Request(prompt_ids=ids, seed=1, params=greedy) for ids in prompts),
            Request(
                prompt_ids=prompts[0], seed=2, num_samples=2, prompt_logprobs=True,
                params=SamplingParams(temperature=0.7, max_new_tokens=8, top_logprobs=2),
            ),
        ]  # fmt: skip
        first = told(engine.sample(requests), requests, loaded.model)
        again = told(engine.sample(requests), requests, loaded.model)
        move(loaded.model)
        version[0] = 1
        moved = told(engine.sample(requests), requests, loaded.model)
        print(json.dumps({"first": first, "again": again, "moved": moved}))  # noqa: T201
    finally:
        engine.close()


@torch.inference_mode()
def told(finished: Iterable[Finished], requests: Sequence[Request], model: PreTrainedModel) -> list[dict[str, object]]:
    """Each sample, in order, with the log-probabilities that the live model gives to the same tokens."""
    rows: list[dict[str, object]] = []
    for request, _, completion in sorted(finished, key=lambda done: (done.request, done.sample)):
        asked = requests[request]
        ids = torch.tensor([[*asked.prompt_ids, *completion.token_ids]])
        logits_T_V = plain(model)(ids).logits[0, len(asked.prompt_ids) - 1 : -1]
        logprobs_T_V = (logits_T_V / (asked.params.temperature or 1.0)).log_softmax(-1)
        expected = logprobs_T_V.gather(-1, torch.tensor(completion.token_ids)[:, None])[:, 0].tolist()
        rows.append(asdict(completion) | {"expected": expected, "num_prompt": len(asked.prompt_ids)})
    return rows


def plain(model: PreTrainedModel) -> PreTrainedModel:
    """The live weights with transformers' own attention."""
    twin = copy.deepcopy(model)
    twin.set_attn_implementation("eager")
    return twin


@torch.no_grad()
def move(model: PreTrainedModel) -> None:
    """Noise on all weights but the embedding, whose packed copy vLLM's build for processors does not renew."""
    generator = torch.Generator().manual_seed(1)
    for name, parameter in model.named_parameters():
        if name != "model.embed_tokens.weight":
            size = max(parameter.std().item(), 0.05) * 0.05
            parameter.add_(torch.randn(parameter.shape, generator=generator) * size)


if __name__ == "__main__":
    main()
