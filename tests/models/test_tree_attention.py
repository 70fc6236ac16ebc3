"""Attention over a tree equals attention over each of its paths, in values and in gradients."""

import pytest
import torch
from torch import Tensor

from burnish.models.attention import Block, PackedLayout, Span
from tests.models.largest import Largest

TREE = [
    Block(Span(0, 5), (Block(Span(5, 3), (Span(8, 4), Span(12, 1))), Span(13, 2))),
    Block(Span(15, 7)),
    Block(Span(22, 2), (Block(Span(24, 2), (Block(Span(26, 3)),)),)),
]
PATHS = [
    [*range(5), 5, 6, 7, 8, 9, 10, 11],
    [*range(5), 5, 6, 7, 12],
    [*range(5), 13, 14],
    [*range(15, 22)],
    [*range(22, 29)],
]
SCALE = 0.3


def drawn(num_heads: int, seed: int, dtype: torch.dtype) -> Tensor:
    x = torch.randn(29, num_heads, 8, generator=torch.Generator().manual_seed(seed)).to(dtype)
    return x.transpose(0, 1).requires_grad_(True)


def inputs(dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    return drawn(6, 0, dtype), drawn(2, 1, dtype), drawn(2, 2, dtype)


def by_paths(q: Tensor, k: Tensor, v: Tensor, window: int | None) -> Tensor:
    out = torch.zeros_like(q)
    for path in PATHS:
        keys, values = (x[:, path].repeat_interleave(3, dim=0) for x in (k, v))
        distance = torch.arange(len(path))[:, None] - torch.arange(len(path))
        hidden = (distance < 0) | (distance >= (window or 99))
        scores = (q[:, path] @ keys.mT * SCALE).masked_fill(hidden, -torch.inf)
        out = out.index_copy(1, torch.tensor(path), scores.softmax(-1) @ values)
    return out


@pytest.mark.parametrize("window", [None, 100, 4])
def test_a_tree_gives_what_its_paths_give(window: int | None) -> None:
    from_above = torch.randn(6, 29, 8, generator=torch.Generator().manual_seed(3))
    results = []
    for attend in (lambda *x: PackedLayout(TREE).attend(0, *x, SCALE, window), lambda *x: by_paths(*x, window)):
        given = inputs(torch.float32)
        out = attend(*given)
        grads = torch.autograd.grad((out * from_above).sum(), given)
        results.append((out, *grads))
    for ours, plain in zip(*results, strict=True):
        torch.testing.assert_close(ours, plain, atol=1e-5, rtol=1e-5)


def test_bfloat16_is_as_near_as_its_precision() -> None:
    out = PackedLayout(TREE).attend(0, *inputs(torch.bfloat16), SCALE, None)
    assert out.dtype == torch.bfloat16
    torch.testing.assert_close(out.float(), by_paths(*inputs(torch.float32), None), atol=0.03, rtol=0.03)


def test_no_square_of_the_pack_is_ever_formed() -> None:
    num_tokens, length = 1024, 32
    layout = PackedLayout([Block(Span(start, length)) for start in range(0, num_tokens, length)])
    x = torch.zeros(2, num_tokens, 8, requires_grad=True)
    with Largest() as largest:
        layout.attend(0, x, x, x, 1.0, None).sum().backward()
    assert largest.numel == 2 * num_tokens * 8


def test_spans_that_leave_a_gap_are_refused() -> None:
    with pytest.raises(AssertionError, match="does not lie behind"):
        PackedLayout([Block(Span(0, 3)), Block(Span(4, 2))])
