"""Experience replay in stage `rl`: a share of each update is of stored replies, weighed by importance, within limits.

A stored reply's advantage is its reward against all stored replies to its prompt, made once. When a step takes it, the
policy is asked how likely it finds it now. A token's weight is the ratio of that to the stored probability, cut at
`cap` (truncated importance sampling, https://fengyao.notion.site/off-policy-rl; with a clipped objective this is
decoupled PPO, https://arxiv.org/abs/2110.00641, whose proximal policy is the one that the step begins with). A reply
whose tokens' log-ratios are on average further than `bound` from 0 is dropped and counted: the policy has left it, and
no weight makes it evidence about what the policy does.

Decisions:
- `share` is of an update's replies, so of its weight; a step takes as many stored replies as make that share of
  `prompts_per_step` x `group_size` fresh ones. None is taken in the place of one that was dropped.
- Replies are gone through in an order of their own each time, at most `max_uses` times; then the stage goes on without.
- KL to a reference and the entropy bonus act on fresh replies alone.
Not covered: `max_staleness` above 0; rewards normalised by running moments, which count the groups that train; replies
of the stage's own earlier steps.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, NamedTuple

from torch import Tensor

from burnish.core.errors import ConfigError
from burnish.core.types import Trajectory
from burnish.learner.packing import Row
from burnish.learner.policy import LossFunction
from burnish.learner.ranked_policy import AnyPolicy
from burnish.objectives import Loss, Streams, correction, ops
from burnish.objectives.dialects import Choice
from burnish.rollout.groups import Group
from burnish.stages import offline_data
from burnish.stages.order import epochs
from burnish.stages.rl_credit import Shaping, credit_step, key_of, sampled_logprobs
from burnish.stages.rl_domains import Rule
from burnish.stages.rl_history_config import ReplayConfig
from burnish.stages.rl_loss import advantages_of
from burnish.stages.rl_rewards import Rewards

PREFIX: Final = "replay/"


class Stored(NamedTuple):
    """A stored reply that trains, and the name whose algorithm it trains by."""

    name: str
    row: Row


class Replayed(NamedTuple):
    """Stored replies of one name, and what the policy thinks of each of their tokens now."""

    name: str
    rows: Sequence[Row]
    now_logprobs: Sequence[Tensor]


class Experience:
    """See the module's docstring. What a step takes follows from its number alone."""

    def __init__(self, stored: Sequence[Stored], config: ReplayConfig, *, num_fresh: int, seed: int) -> None:
        self.config = config
        num = max(1, round(num_fresh * config.share / (1 - config.share)))
        self._batches = epochs(stored, config.max_uses, min(num, len(stored)), seed)

    def of(
        self, step: int, policy: AnyPolicy, temperatures: Mapping[str, float]
    ) -> tuple[list[Replayed], dict[str, float]]:
        """What a step replays, by name, and what was measured."""
        taken = self._batches[step] if step < len(self._batches) else []
        replayed: list[Replayed] = []
        for name in dict.fromkeys(one.name for one in taken):
            rows = sorted((one.row for one in taken if one.name == name), key=lambda row: row.token_ids)
            now = policy.logprobs(rows, temperatures[name])
            kept = [
                (row, now_T) for row, now_T in zip(rows, now, strict=True) if distance(row, now_T) <= self.config.bound
            ]
            if kept:
                replayed.append(Replayed(name, [row for row, _ in kept], [now_T for _, now_T in kept]))
        num_kept = sum(len(one.rows) for one in replayed)
        return replayed, {f"{PREFIX}replies": num_kept, f"{PREFIX}dropped_beyond_bound": len(taken) - num_kept}


def distance(row: Row, now_logprobs_T: Tensor) -> float:
    """The mean of a reply's absolute log-ratios to the policy that it was stored by."""
    return float((now_logprobs_T.cpu() - sampled_logprobs(row)).abs().mean())


def open_experience(
    groups: Sequence[Group], rules: Mapping[str, Rule], config: ReplayConfig, *, num_fresh: int, is_by_turn: bool,
    filter_overlong: bool, shapings: Mapping[str, Shaping], seed: int,
) -> Experience:  # fmt: skip
    """Credit all that is stored; `ConfigError` where nothing of it can train."""
    offline_data.check_logprobs(groups, "stage 'rl': replay")
    if running := sorted(name for name, rule in rules.items() if rule.normaliser == "running"):
        raise ConfigError(
            f"stage 'rl': replay with normaliser 'running' of {running[0]!r}: its moments count the groups that were "
            "sampled; take 'group' or 'none', or leave replay out"
        )
    wanted = [group for group in groups if rules[group.source_name].is_wanted(group)]
    stored: list[Stored] = []
    for name, rule in rules.items():
        some = [group for group in wanted if group.source_name == name]
        if not some:
            continue
        rewards = Rewards({name: rule}).of(some)
        rows_P = credit_step(
            some, advantages_of(rule.choice), rule.choice, replace(shapings[name], kl_coefficient=0.0, reference=None),
            reward=partial(_reward, rewards), filter_overlong=filter_overlong, is_by_turn=is_by_turn,
        )  # fmt: skip
        stored += [Stored(name, row) for rows in rows_P for row in rows]
    if not stored:
        raise ConfigError(
            f"stage 'rl': replay: none of {len(groups)} stored groups has replies that were rewarded differently; "
            "leave replay out, or store more rollouts"
        )
    return Experience(stored, config, num_fresh=num_fresh, seed=seed)


def _reward(rewards: Mapping[tuple[str, int], float], member: Trajectory) -> float:
    return rewards[key_of(member)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayLoss:
    """The objective on stored replies, by truncated importance; a loss that ranks can be sent."""

    objective: LossFunction
    cap: float

    def __call__(self, s: Streams) -> Loss:
        """The sum over tokens."""
        weight_T = correction.tis(s, cap=self.cap)
        found = self.objective(correction.apply(s, weight_T))
        measured = {
            "importance": ops.metric(weight_T, s),
            "truncated": ops.metric((weight_T >= self.cap).to(weight_T.dtype), s),
        }
        return Loss(total=found.total, metrics={**found.metrics, **measured})


def replay_loss(choice: Choice, cap: float) -> ReplayLoss:
    """The loss of an algorithm's stored replies."""
    return ReplayLoss(objective=partial(choice.module.loss, config=choice.config), cap=cap)
