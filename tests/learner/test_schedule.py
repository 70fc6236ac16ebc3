import pytest

from burnish.learner.schedule import learning_rate


@pytest.mark.parametrize(
    ("step", "decay", "expected"),
    [
        (0, "constant", 0.5),  # warm-up: (0 + 1) / 2
        (1, "constant", 1.0),
        (7, "constant", 1.0),
        (2, "linear", 1.0),  # the decay begins
        (6, "linear", 0.55),  # half way from 1 to 0.1
        (10, "linear", 0.1),
        (99, "linear", 0.1),
        (6, "cosine", 0.55),
        (4, "cosine", 0.1 + 0.9 * (1 + 2**-0.5) / 2),
        (2, "warmup_stable_decay", 1.0),
        (6, "warmup_stable_decay", 1.0),  # the last 40 % begin behind it
        (8, "warmup_stable_decay", 0.55),  # half of 4 steps
        (9, "warmup_stable_decay", 0.325),  # three quarters: 1 - 0.9 * 0.75
        (10, "warmup_stable_decay", 0.1),
        (99, "warmup_stable_decay", 0.1),
    ],
)
def test_the_rate_rises_then_falls(step: int, decay: str, expected: float) -> None:
    rate = learning_rate(
        step, peak=1.0, num_warmup=2, num_steps=10, decay=decay, decay_share=0.4  # pyright: ignore[reportArgumentType]
    )  # fmt: skip
    assert rate == pytest.approx(expected)
