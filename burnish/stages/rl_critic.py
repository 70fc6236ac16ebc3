"""The value model beside the policy, for objectives whose advantages come from values a token (`ppo`).

A copy of the policy's body, made when the stage begins, with a head that starts at 0 (`learner.scalar`): two models
instead of one, so that the error of values cannot move the policy, whose gradient is then that of eq. 7 alone, and
clipping, rate and moments of the one have no part in the other. The price is the memory of a second model.

Values are read before each sampled token, so what a tool or the user said is no step, and has no value. The reward of
a reply, less what shaping takes, arrives at its last sampled token; `gae.estimate` does the rest, with no value behind
a reply that was cut off, since its verdict is of what there is. Advantages are whitened over the step's tokens.

`explained_variance` is 1 - Var(return - value) / Var(return) over the step's tokens with the values from before the
update: 1 is perfect, 0 is what a constant does; it is left out where all returns are equal.
`num_passes` goes over an update's replies again, as published PPO does; the returns and the values that `value_clip`
holds to are those from before. Not covered: several ranks.
"""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import torch
from pydantic import Field
from torch import Tensor

from burnish.core.config import Strict
from burnish.learner.optimiser import OptimiserConfig
from burnish.learner.packing import Row
from burnish.learner.policy import Policy
from burnish.learner.scalar import OutputLoss, ScalarModel
from burnish.models.heads import new_head
from burnish.models.lora import trainable
from burnish.objectives import gae, ppo

_FOLDER = "critic"


class CriticConfig(Strict):
    """Options of the value model, as `critic = { ... }` of stage `rl`."""

    learning_rate: float | None = Field(default=None, gt=0)
    """At the peak; None is the policy's. Warm-up and decay are the stage's."""
    gamma: float = Field(default=1.0, gt=0, le=1)
    lam: float = Field(default=0.95, ge=0, le=1)
    num_passes: int = Field(default=1, ge=1)
    """How often the values go over the replies of an update; the policy goes once."""
    num_warmup_steps: int = Field(default=0, ge=0)
    """So many steps at the beginning move the values alone, and not the policy."""
    whiten: bool = True
    """Advantages have mean 0 and spread 1 over the tokens of a step."""


class Valued(NamedTuple):
    """Of each row: advantages for the policy, and returns and present values for the value model."""

    advantages: Sequence[Tensor]
    returns: Sequence[Tensor]
    values: Sequence[Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class Critic:
    """The value model and how it learns."""

    model: ScalarModel
    config: CriticConfig
    loss: ppo.Config

    def value(self, parts: Sequence[Sequence[Row]]) -> list[Valued]:
        """Value a step's updates, by the model as it is; a row's `advantage` is the reply's whole reward."""
        valued = [self._value(rows) for rows in parts]
        return whitened(valued) if self.config.whiten else valued

    def _value(self, rows: Sequence[Row]) -> Valued:
        values = [outputs_N_1[:, 0] for outputs_N_1 in self.model.outputs(rows)]
        estimates = [self._estimate(row.advantage, values_N) for row, values_N in zip(rows, values, strict=True)]
        return Valued(
            advantages=[estimate.advantages_T for estimate in estimates],
            returns=[estimate.returns_T for estimate in estimates],
            values=values,
        )

    def _estimate(self, reward: float, values_N: Tensor) -> gae.Estimate:
        rewards_N = torch.zeros_like(values_N)
        rewards_N[-1] = reward
        was_sampled_N = torch.ones_like(values_N, dtype=torch.bool)
        return gae.estimate(rewards_N, values_N, was_sampled_N, gamma=self.config.gamma, lam=self.config.lam)

    def update(self, rows: Sequence[Row], valued: Valued, learning_rate: float) -> dict[str, float]:
        """The value model's passes towards the returns; the error is that before the first of them."""
        returns_N, old_values_N = torch.cat(list(valued.returns)), torch.cat(list(valued.values))

        def loss(outputs: Sequence[Tensor]) -> Tensor:
            values_N = torch.cat(list(outputs))[:, 0]
            return ppo.value_loss(values_N, returns_N, torch.ones_like(values_N), self.loss, old_values_N).total

        passes = [self._pass(rows, loss, len(returns_N), learning_rate) for _ in range(self.config.num_passes)]
        return passes[0]

    def _pass(self, rows: Sequence[Row], loss: OutputLoss, num_tokens: int, learning_rate: float) -> dict[str, float]:
        error = self.model.forward_backward(rows, loss, num_tokens)
        return {"value_error": error, "value_grad_norm": self.model.weights.step(learning_rate)}


class PolicyAndCritic(NamedTuple):
    """What a checkpoint of the stage holds: the policy, and the value model in a folder beside it."""

    policy: Policy
    critic: Critic

    def save(self, folder: Path, *, with_optimiser: bool) -> None:
        """Write both into an existing folder."""
        self.policy.save(folder, with_optimiser=with_optimiser)
        (folder / _FOLDER).mkdir()
        self.critic.model.weights.save(folder / _FOLDER, with_optimiser=with_optimiser)

    def load(self, folder: Path) -> None:
        """Read what `save` wrote."""
        self.policy.load(folder)
        self.critic.model.weights.load(folder / _FOLDER)


def new_critic(
    policy: Policy, config: CriticConfig, loss: ppo.Config, optimiser: OptimiserConfig, *, max_pack_tokens: int
) -> Critic:
    """A value model on a copy of the policy's body as it is now."""
    body = copy.deepcopy(policy.model)
    model = ScalarModel(body, new_head(body, "value"), trainable(body), max_pack_tokens=max_pack_tokens)
    model.weights.adopt(policy.snapshot())  # what the body computes in may be rounded
    model.weights.reset_optimiser(replace(optimiser, ema_decay=0.0))  # nothing reads an average of values
    return Critic(model=model, config=config, loss=loss)


def whitened(parts: Sequence[Valued], epsilon: float = 1e-8) -> list[Valued]:
    """Advantages of mean 0 and spread 1 over the tokens of all parts."""
    flat_N = joined([part.advantages for part in parts])
    mean, spread = flat_N.mean(), (flat_N.var(correction=0) + epsilon).sqrt()
    return [part._replace(advantages=[(of_row_N - mean) / spread for of_row_N in part.advantages]) for part in parts]


def joined(parts: Sequence[Sequence[Tensor]]) -> Tensor:
    """The tokens of all rows of all parts, end to end."""
    return torch.cat([values_N for part in parts for values_N in part])


def value_metrics(parts: Sequence[Valued]) -> Mapping[str, float]:
    """What the values of a step were worth before its update; nothing where there are none."""
    if not parts:
        return {}
    returns_N, values_N = joined([part.returns for part in parts]), joined([part.values for part in parts])
    metrics = {"value_mean": float(values_N.mean()), "return_mean": float(returns_N.mean())}
    variance = returns_N.var(correction=0)
    if variance > 0:
        metrics["explained_variance"] = float(1 - (returns_N - values_N).var(correction=0) / variance)
    return metrics
