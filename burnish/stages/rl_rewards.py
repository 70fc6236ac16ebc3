"""What each reply of a step is worth to its objective: parts weighed, each domain's rewards normalised and clipped.

`of` is called once a step, with the groups that train: the running moments count each of those once, in the same order
in an unbroken run, a resumed one and a replay. A checkpoint keeps them beside the policy. Groups that scored alike and
were drawn again are not counted where replies are compared, since no advantage is made of them.

Each stage begins with moments of its own, unless it carries over those that the stage `rl` before has left in its last
checkpoint: `[tasks.rl]` is the same for all stages, so the rewards are on the same scale; only the policy has moved.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from burnish.core.config import Strict
from burnish.core.errors import ConfigError, RunFolderError
from burnish.rewards.normalisers import Running, RunningState, by_component, by_group, by_rank, clipped
from burnish.rollout.groups import Group
from burnish.stages.rl_domains import Rule
from burnish.stages.training import Saved

FILE: Final = "normalisers.json"
Key = tuple[str, int]
"""Group and member."""


class RunningStates(Strict):
    """What `normalisers.json` of a checkpoint says: the running moments of each domain that has some."""

    domains: dict[str, RunningState]


class Rewards:
    """The rewards of all domains, and the running moments of those that have some."""

    def __init__(self, rules: Mapping[str, Rule]) -> None:
        self._rules = rules
        self._running = {name: Running() for name, rule in rules.items() if rule.normaliser == "running"}

    @property
    def has_state(self) -> bool:
        """Whether a checkpoint must keep anything."""
        return bool(self._running)

    def of(self, groups: Sequence[Group]) -> Mapping[Key, float]:
        """The reward of each scored member, as its objective sees it."""
        by_name: defaultdict[str, list[Group]] = defaultdict(list)
        for group in groups:
            by_name[group.source_name].append(group)
        return {key: reward for name, some in by_name.items() for key, reward in self._of(name, some).items()}

    def metrics(self) -> dict[str, float]:
        """The running moments."""
        return {
            f"normaliser/{name}/{what}": value
            for name, running in self._running.items()
            for what, value in (("mean", running.state.mean), ("std", running.std))
        }

    def save(self, folder: Path) -> None:
        """Write the running moments into a checkpoint."""
        states = RunningStates(domains={name: running.state for name, running in self._running.items()})
        (folder / FILE).write_text(states.model_dump_json(), encoding="utf-8")

    def leave(self, folder: Path) -> None:
        """Leave the running moments, if there are any, for a later stage."""
        if self.has_state:
            self.save(folder)

    def carry_over(self, folder: Path) -> None:
        """Go on from what an earlier stage left, if it did; domains that it had nothing of begin afresh."""
        states = _read(folder) if (folder / FILE).exists() else {}
        for name in states.keys() & self._running.keys():
            self._running[name].state = states[name]

    def load(self, folder: Path) -> None:
        """Read what `save` wrote."""
        states = _read(folder)
        if states.keys() != self._running.keys():
            raise RunFolderError(
                f"{str(folder / FILE)!r} has running moments of {', '.join(states) or 'nothing'}, and the recipe wants "
                f"those of {', '.join(self._running)}; go on with the recipe that the run was started with"
            )
        for name, state in states.items():
            self._running[name].state = state

    def _of(self, name: str, groups: Sequence[Group]) -> Mapping[Key, float]:
        rule = self._rules[name]
        _check_names(name, rule, groups)
        keys = [(group.id, member.member) for group in groups for member in group.scored]
        return dict(zip(keys, clipped(self._normalised(name, rule, groups), rule.clip), strict=True))

    def _normalised(self, name: str, rule: Rule, groups: Sequence[Group]) -> list[float]:
        match rule.normaliser:
            case "none":
                return [reward for group in groups for reward in rule.rewards(group)]
            case "running":
                return self._running[name]([reward for group in groups for reward in rule.rewards(group)])
            case "group":
                return [reward for group in groups for reward in by_group(rule.rewards(group))]
            case "rank":
                return [reward for group in groups for reward in by_rank(rule.rewards(group))]
            case "component":
                return [reward for group in groups for reward in by_component(rule.parts(group), rule.reward.weights)]


def _read(folder: Path) -> Mapping[str, RunningState]:
    try:
        return RunningStates.model_validate_json((folder / FILE).read_bytes()).domains
    except (OSError, ValidationError) as error:
        message = f"cannot read {str(folder / FILE)!r}: {error}; go on from another checkpoint"
        raise RunFolderError(message) from error


def _check_names(name: str, rule: Rule, groups: Sequence[Group]) -> None:
    """`ConfigError` where the recipe names a part that the domain does not give."""
    try:
        rule.reward.check_names([one.verdict for group in groups for one in group.scored if one.verdict is not None])
    except ConfigError as error:
        raise ConfigError(f"tasks reported under {name!r}: rl.{error}") from None


class WithRewards:
    """What a checkpoint of the stage holds: weights, and the running moments of rewards beside them."""

    def __init__(self, weights: Saved, rewards: Rewards) -> None:
        self._weights, self._rewards = weights, rewards

    def save(self, folder: Path, *, with_optimiser: bool) -> None:
        """Write both into an existing folder."""
        self._weights.save(folder, with_optimiser=with_optimiser)
        self._rewards.save(folder)

    def load(self, folder: Path) -> None:
        """Read what `save` wrote."""
        self._weights.load(folder)
        self._rewards.load(folder)
