"""A report with made-up numbers that look like a real run's."""

import math
import random

from burnish.core.interval import Interval
from burnish.dashboard.data import DomainResult, ReportData, TrajectoryView

HOSTILE = '<script>alert(1)</script> \u202edlrow\u2066 \x00 ]]> & "quoted" <img src=x onerror=alert(1)> </style>'


def curve(seed, start, end, num_steps, noise):
    rng = random.Random(seed)
    shape = [start + (end - start) * (1 - math.exp(-3 * step / num_steps)) for step in range(num_steps)]
    return [(float(step), max(0.0, value + rng.gauss(0, noise))) for step, value in enumerate(shape)]


def tokens(prompt, reply, seed=0):
    rng = random.Random(seed)
    given = [(word + " ", False, 0.0) for word in prompt.split(" ")]
    return (
        given + [(word + " ", True, -rng.expovariate(1.3)) for word in reply.split(" ")] + [("<|im_end|>", True, -0.01)]
    )


def view(domain, stage, prompt, reply, score, **fields):
    return TrajectoryView(
        domain=domain, stage=stage, prompt=prompt, tokens=tokens(prompt, reply), reply=reply, score=score, **fields
    )


DOMAINS = {
    "puzzles": DomainResult(
        before=Interval(0.142, 0.1005, 0.1969, 200),
        checkpoints={"after sft": Interval(0.262, 0.206, 0.327, 200)},
        after=Interval(0.351, 0.288, 0.419, 200),
        difference=Interval(0.209, 0.141, 0.277, 200),
        paired_p=3.1e-8,
        adjusted_p=6.2e-8,
        reason="significantly better: +0.209 on 200 tasks, p = 6.2e-08 after Holm",
    ),
    "documents": DomainResult(
        before=Interval(0.087, 0.061, 0.118, 198),
        checkpoints={"after sft": Interval(0.721, 0.68, 0.76, 200)},
        after=Interval(0.844, 0.81, 0.872, 199),
        difference=Interval(0.757, 0.71, 0.80, 197),
        paired_p=1 / 20001,
        adjusted_p=3 / 20001,
        not_scored_before={"timeout": 1, "unscorable": 1},
        not_scored_after={"infrastructure_error": 1},
    ),
    "code": DomainResult(
        before=Interval(0.31, 0.252, 0.371, 200),
        checkpoints={"after sft": Interval(0.352, 0.293, 0.414, 200)},
        after=Interval(0.338, 0.279, 0.401, 200),
        difference=Interval(0.028, -0.014, 0.07, 200),
        paired_p=0.214,
        adjusted_p=0.214,
        reason="no clear change: +0.028 on 200 tasks, p = 0.21 after Holm",
    ),
}

TRAJECTORIES = (
    view(
        "documents",
        "rl step 58",
        "Read the invoice and answer with JSON.\n\nACME GmbH  Invoice 2024-118\nDate 3 March 2024  EUR 1.204,50",
        '{"number": "2024-118", "date": "2024-03-03", "total": "1204.50", "currency": "EUR"}',
        0.75,
        parts={"number": 1.0, "date": 1.0, "total": 1.0, "currency": 0.0},
        evidence="currency: got 'EUR', expected '€'",
    ),
    view("puzzles", "rl step 58", "What is 17 + 4 - 9? Give the number alone.", "12", 1.0),
    view(
        "code",
        "rl step 12",
        "Write f(xs) that returns the sum of squares.",
        "def f(xs):\n    return sum(x for x in xs)",
        0.0,
    ),
    view("code", "rl step 12", "Say something dangerous.", HOSTILE, None, evidence=HOSTILE),
)

FAILURES = {
    "puzzles": {"part: answer": 130, "stop: length": 4},
    "documents": {"part: total": 22, "part: date": 9, "verdict: timeout": 1, "stop: length": 2},
    "code": {"part: tests": 131, "stop: length": 31},
}

REPORT = ReportData(
    name="quickstart",
    outcome="promoted",
    seed=1,
    wall_s=1523.4,
    peak_rss_mb=4310.0,
    tokens_sampled=412_337,
    tokens_trained=655_020,
    domains=DOMAINS,
    curves={
        "Reward in training": {
            "puzzles": curve(1, 0.2, 0.45, 60, 0.05),
            "documents": curve(2, 0.65, 0.88, 60, 0.04),
            "code": curve(3, 0.3, 0.42, 60, 0.06),
        },
        "SFT loss": {"train": curve(4, 1.9, 0.4, 120, 0.06), "held out": curve(5, 1.8, 0.5, 8, 0.0)},
        "Entropy of sampled tokens": {"entropy": curve(6, 0.8, 0.35, 60, 0.04)},
        "KL between sampler and learner": {"k3": curve(7, 0.0004, 0.0009, 60, 0.0001)},
        "Reply length (tokens)": {d: curve(8 + i, 40 - 9 * i, 28 + i, 60, 3) for i, d in enumerate(DOMAINS)},
        "Groups without signal": {"share": [*curve(12, 0.5, 0.2, 40, 0.05), (41.0, math.nan)]},
    },
    trajectories=TRAJECTORIES,
    failures=FAILURES,
    timing_s={
        "load": 21.0,
        "evaluate": 412.0,
        "sft": 233.0,
        "sample": 480.0,
        "verify": 61.0,
        "update": 301.0,
        "export": 6.1,
    },
    facts={"model": "starter (SmolLM2-135M-Instruct)", "burnish": "0.1.0", "torch": "2.13.0", "processor": "2 cores"},
    recipe='name = "quickstart"\nseed = 1\n\n[[tasks]]\ndomain = "documents"\n',
)
