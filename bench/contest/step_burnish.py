"""Side of `bench.grpo_step`: a step of stage `rl`, from prompts to moved weights, after a small one.

The parts are the stage's own: engine, group advantages, loss with truncated importance sampling and its measure of
the mismatch, learner. The sampler takes the weights that the small step has moved, so that packing them anew is timed.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import torch

from bench.contest.sample_burnish import open_endless
from bench.contest.stopwatch import Stopwatch, shape_of_work
from bench.contest.train_burnish import open_policy
from bench.contest.words import texts_of
from bench.contest.workloads import GROUP, PROMPT, reward_of
from burnish import __version__
from burnish.core.types import Completion
from burnish.engine.local import LocalEngine
from burnish.engine.params import SamplingParams
from burnish.engine.types import Request
from burnish.learner.batch import Batch
from burnish.learner.optimiser import OptimiserConfig
from burnish.learner.packing import Row
from burnish.learner.policy import LossFunction, Policy
from burnish.models.load import load
from burnish.objectives import grpo
from burnish.stages.rl_loss import compose, load_rollout_objective, multipliers_of
from burnish.stages.rl_mismatch import Mismatch


def loss_of_stage() -> LossFunction:
    """What stage `rl` composes for `objective = "grpo@trl"` and its defaults."""
    return compose(
        load_rollout_objective("grpo@trl", {}), multipliers=multipliers_of("tis", {}), kl_kind="k2",
        kl_coefficient=0.0, mismatch=Mismatch(),
    )  # fmt: skip


def sample(engine: LocalEngine, requests: Sequence[Request]) -> list[list[Completion]]:
    """The completions of each request, in order."""
    found: defaultdict[int, dict[int, Completion]] = defaultdict(dict)
    for finished in engine.sample(requests):
        found[finished.request][finished.sample] = finished.completion
    return [[found[request][number] for number in sorted(found[request])] for request in range(len(requests))]


def rows_of_group(prompt_ids: tuple[int, ...], members: Sequence[Completion]) -> list[Row]:
    """Rows with advantages from the members' rewards."""
    advantages_G = grpo.advantages(torch.tensor([reward_of(member.text) for member in members]), grpo.Config())
    return [
        Row(
            token_ids=(*prompt_ids, *member.token_ids),
            was_sampled=(False,) * len(prompt_ids) + (True,) * len(member.token_ids),
            advantage=advantage,
            rollout_logprobs=(0.0,) * len(prompt_ids) + member.logprobs,
        )
        for member, advantage in zip(members, advantages_G.tolist(), strict=True)
    ]


def step(
    engine: LocalEngine, policy: Policy, prompts: Sequence[tuple[int, ...]], num_new: int, num_samples: int,
    watch: Stopwatch,
) -> None:  # fmt: skip
    """Sample, judge, update; keep what both halves took."""
    params = SamplingParams(max_new_tokens=num_new)
    requests = [
        Request(prompt_ids=prompt, seed=number, num_samples=num_samples, params=params)
        for number, prompt in enumerate(prompts)
    ]
    groups = watch.time("sample", lambda: sample(engine, requests))
    watch.start()
    rows = [row for prompt, members in zip(prompts, groups, strict=True) for row in rows_of_group(prompt, members)]
    assert sum(row.num_trained for row in rows) == len(prompts) * num_samples * num_new
    policy.forward_backward(Batch(rows=rows, aggregate=grpo.AGGREGATION, max_length=num_new), loss_of_stage())
    policy.optim_step(1e-6)
    watch.stop("update")


def main(shape: dict[str, Any]) -> None:
    """Time one step."""
    torch.set_num_threads(shape["threads"])
    loaded = load(shape["model"], dtype=shape["dtype"])
    tokenizer = loaded.tokenizer
    policy = open_policy(loaded.model, "full")
    policy.reset_optimiser(OptimiserConfig())
    engine = open_endless(loaded, lambda: policy.version)
    prompts = [tuple(tokenizer(text)["input_ids"]) for text in texts_of(tokenizer, shape["prompts"], PROMPT)]
    watch = Stopwatch()
    step(engine, policy, prompts[:1], 4, 2, watch)
    step(engine, policy, prompts, shape["new"], GROUP, watch)
    for clock in (watch.wall_s, watch.cpu_s):
        clock["step"] = clock["sample"] + clock["update"]
    watch.report({"burnish": __version__, "torch": torch.__version__})


if __name__ == "__main__":
    main(shape_of_work())
