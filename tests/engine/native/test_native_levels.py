"""The kernels of each instruction set: those that this processor has, and all with what it lacks replaced by loops.

The latter are slow: compiling them takes minutes; afterwards the library is kept. Emulated tiles know one thread.
"""

import pytest
import torch

from burnish.engine.native.build import LEVELS, built_library
from burnish.engine.native.library import Functions, Library, levels_of, load
from burnish.engine.native.steps import NativeSteps, reason_why_not
from burnish.engine.steps import Work
from tests.engine.native.models import adapter_of, make, prompt
from tests.fakes import plain_copy

pytestmark = [
    pytest.mark.skipif(
        (reason := reason_why_not(make("llama"))) is not None, reason=f"the native step cannot be had here: {reason}"
    ),
    pytest.mark.parametrize("level", [level.name for level in LEVELS]),
]


@pytest.fixture(
    scope="module", params=["own", pytest.param("emulated", marks=[pytest.mark.slow, pytest.mark.timeout(900)])]
)
def library(request: pytest.FixtureRequest) -> Functions:
    return load(built_library(notice=lambda _: None, emulated=request.param == "emulated"))


@pytest.fixture
def functions(library: Functions, level: str) -> Functions:
    if level not in levels_of(library):
        pytest.skip(f"this processor has no {level}")
    return library


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_a_level_passes_its_check(functions: Functions, level):
    assert functions["check"](level.encode()) == 0


@pytest.mark.parametrize("head_width", [16, 32])
@pytest.mark.parametrize("options", [{}, {"weights": "int8", "cache": "int8"}])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_level_computes_what_transformers_computes_and_each_row_by_itself(
    functions: Functions, level, dtype, options, head_width
):
    model = make("qwen3", initializer_range=0.1, head_dim=head_width).to(dtype)
    steps = NativeSteps(model, memory_mb=32, library=Library(functions, level), **options)
    token_ids = prompt(270)
    trunk = steps.open()
    alone_T_D = steps.feed([Work(trunk, token_ids)], every_token=True)
    expected_T_V = plain_copy(model).float()(torch.tensor([token_ids])).logits[0].log_softmax(-1)
    gap_T = (expected_T_V.exp() * (steps.logits(alone_T_D).log_softmax(-1) - expected_T_V).abs()).sum(-1)
    assert gap_T.mean() < (0.12 if options else 2e-5 if dtype == torch.float32 else 0.03)
    forks = [steps.open(trunk, 257) for _ in range(3)]
    for length in range(257, 261):
        hidden_3_D = steps.feed([Work(fork, [token_ids[length]]) for fork in forks])
        assert torch.equal(hidden_3_D, alone_T_D[length].expand(3, -1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_level_adds_what_an_adapter_adds_and_each_row_by_itself(functions: Functions, level, dtype):
    model, token_ids = make("qwen3", initializer_range=0.1, head_dim=32), prompt(90)
    merged = plain_copy(model)
    model = model.to(dtype)
    steps = NativeSteps(model, memory_mb=32, library=Library(functions, level))
    for seed, name in enumerate("ab"):
        steps.put_adapter(name, adapter_of(merged, 4, seed, scale=0.5))
    alone_T_D = steps.feed([Work(steps.open(adapter="b"), token_ids)], every_token=True)
    others = [Work(steps.open(adapter=name), prompt(n, seed=n)) for name, n in (("a", 20), (None, 3))]
    among_T_D = steps.feed([*others, Work(steps.open(adapter="b"), token_ids)], every_token=True)[-90:]
    assert torch.equal(among_T_D, alone_T_D)
    for name, low in adapter_of(merged, 4, 1, scale=0.5).items():
        merged.get_submodule(name).weight += low.scale * low.up_O_R @ low.down_R_I
    expected_T_V = merged(torch.tensor([token_ids])).logits[0].log_softmax(-1)
    gap_T = (expected_T_V.exp() * (steps.logits(alone_T_D).log_softmax(-1) - expected_T_V).abs()).sum(-1)
    assert gap_T.mean() < (2e-5 if dtype == torch.float32 else 0.03)
