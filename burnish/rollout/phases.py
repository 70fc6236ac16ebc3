"""The stage graph: which domains train, and in what phase each is.

waiting → active      its entry test holds
active → solved       its mean reward has reached a bound over its last groups
active → silent       its groups hardly ever differ in reward, and it is not solved
solved, silent → active   the test that put it there does not hold any longer; never where its weight there is 0

Each phase lasts at least as many groups as its test looks at. The last domain that has any weight never leaves, since
something must train. Decision: rules belong to the name that a domain is reported under; entries that share a name
share its rules and split its share by their weights.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

from burnish.core.curriculum import Enters, Silent, Solved
from burnish.core.errors import ConfigError
from burnish.core.recipe import TaskEntry
from burnish.rollout.standing import Phase, Standing


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What holds for one domain."""

    weight: float
    enters: Enters
    solved: Solved | None
    silent: Silent | None

    def factor(self, phase: Phase) -> float:
        """By what a phase multiplies the weight."""
        match phase:
            case "waiting":
                return 0.0
            case "active":
                return 1.0
            case "solved":
                return self.solved.weight if self.solved else 1.0
            case "silent":
                return self.silent.weight if self.silent else 1.0


def rules_of(
    entries: Sequence[TaskEntry], *, solved: Solved | None = None, silent: Silent | None = None
) -> dict[str, Rules]:
    """The rules of each domain; `solved` and `silent` hold where an entry says nothing of them."""
    rules: dict[str, Rules] = {}
    for entry in entries:
        name = entry.report_name
        own = Rules(
            weight=entry.weight, enters=entry.enters, solved=entry.solved or solved, silent=entry.silent or silent
        )
        kept = rules.get(name, own)
        if (kept.enters, kept.solved, kept.silent) != (own.enters, own.solved, own.silent):
            raise ConfigError(
                f"tasks: entries that are reported under {name!r} enter or leave by different rules; they enter as one "
                "domain: give them the same `enters`, `solved` and `silent`, or each a `group` of its own"
            )
        weight = own.weight + (kept.weight if name in rules else 0.0)
        rules[name] = Rules(weight=weight, enters=own.enters, solved=own.solved, silent=own.silent)
    return rules


def check_graph(rules: Mapping[str, Rules], num_steps: int) -> None:
    """`ConfigError` for unknown names, cycles, and domains that can never enter."""
    for name, rule in rules.items():
        for before in rule.enters.after:
            if before not in rules:
                raise ConfigError(
                    f"tasks: {name!r} enters after {before!r}, which no entry is reported under; there are: "
                    f"{', '.join(sorted(rules))}"
                )
    try:
        TopologicalSorter({name: rule.enters.after for name, rule in rules.items()}).prepare()
    except CycleError as error:
        chain = " after ".join(map(repr, reversed(error.args[1])))
        raise ConfigError(f"tasks: no domain of a circle can ever enter: {chain}; cut it at one `enters`") from None
    for name in rules:
        if why := _never(name, rules, num_steps):
            raise ConfigError(f"tasks: {name!r} can never enter: {why}")
    if not any(_enters_at_once(rule) for rule in rules.values()):
        raise ConfigError("tasks: no domain trains at step 0, as each has an `enters`; leave one without")


def _enters_at_once(rule: Rules) -> bool:
    return not rule.enters.after and rule.enters.at_step == 0


def _never(name: str, rules: Mapping[str, Rules], num_steps: int) -> str:
    enters = rules[name].enters
    if enters.at_step >= num_steps:
        return f"enters.at_step is {enters.at_step}, and the stage ends after {num_steps} steps; lower it"
    for before in enters.after:
        solved = rules[before].solved
        if solved and solved.weight == 0 and enters.when_reward and solved.above < enters.when_reward:
            return (
                f"{before!r} leaves when its reward is {solved.above}, below the when_reward of {enters.when_reward}; "
                "lower that, or give its `solved` a weight above 0"
            )
    return ""


def first_standings(rules: Mapping[str, Rules]) -> dict[str, Standing]:
    """How the domains stand before the first step."""
    return {name: Standing(phase="active" if _enters_at_once(rule) else "waiting") for name, rule in rules.items()}


def moves(
    rules: Mapping[str, Rules], standings: Mapping[str, Standing], step: int, factors: Mapping[str, float]
) -> dict[str, tuple[Phase, str]]:
    """The domains that come into another phase before a step, each with the reason; `factors` are what gates left."""
    found: dict[str, tuple[Phase, str]] = {}
    weights = {name: rules[name].factor(one.phase) * factors.get(name, 1.0) for name, one in standings.items()}
    for name, standing in standings.items():
        move = _move(name, rules, standings, step)
        if move is None or move[0] == standing.phase:
            continue
        weight = rules[name].factor(move[0]) * factors.get(name, 1.0)
        if weight == 0 and not any(w for other, w in weights.items() if other != name):
            continue
        weights[name] = weight
        found[name] = move
    return found


def _move(
    name: str, rules: Mapping[str, Rules], standings: Mapping[str, Standing], step: int
) -> tuple[Phase, str] | None:
    rule, standing = rules[name], standings[name]
    if standing.phase == "waiting":
        return _entry(rule.enters, standings, step)
    if rule.factor(standing.phase) == 0:
        return None
    solved, silent = rule.solved, rule.silent
    if solved and standing.num_in_phase >= solved.over and (mean := standing.reward(solved.over)) is not None:
        if mean >= solved.above:
            return "solved", f"mean reward {mean:.3f} over {solved.over} groups"
        if standing.phase == "solved":
            return "active", f"mean reward {mean:.3f} over {solved.over} groups, below {solved.above}"
    if silent and standing.num_in_phase >= silent.over and (share := standing.signal(silent.over)) is not None:
        if share <= silent.below and standing.phase == "active":
            return "silent", f"{share:.3f} of {silent.over} groups had members that scored differently"
        if share > silent.below and standing.phase == "silent":
            return "active", f"{share:.3f} of {silent.over} groups had members that scored differently"
    return None


def _entry(enters: Enters, standings: Mapping[str, Standing], step: int) -> tuple[Phase, str] | None:
    if step < enters.at_step:
        return None
    reasons = [f"step {step}"] if enters.at_step else []
    for before in enters.after:
        reward = standings[before].reward(enters.over)
        if reward is None or enters.when_reward is None or reward < enters.when_reward:
            return None
        reasons.append(f"{before} has mean reward {reward:.3f} over {enters.over} groups")
    return "active", "; ".join(reasons)


def graph_lines(rules: Mapping[str, Rules]) -> list[str]:
    """The graph in words, one line a domain, those that wait behind what they wait for."""
    order = TopologicalSorter({name: rule.enters.after for name, rule in rules.items()}).static_order()
    return [f"{name}: {_in_words(rules[name])}" for name in order]


def _in_words(rule: Rules) -> str:
    enters, parts = rule.enters, list[str]()
    if enters.at_step:
        parts.append(f"enters at step {enters.at_step}")
    if enters.after:
        parts.append(f"enters when {' and '.join(enters.after)} reach {enters.when_reward} over {enters.over} groups")
    if not parts:
        parts.append("trains from the start")
    if rule.solved:
        parts.append(f"solved at {rule.solved.above} over {rule.solved.over} groups: {_weight(rule.solved.weight)}")
    if rule.silent:
        parts.append(
            f"silent at {rule.silent.below} of {rule.silent.over} groups with signal: {_weight(rule.silent.weight)}"
        )
    return "; ".join(parts)


def _weight(weight: float) -> str:
    return f"weight times {weight}" if weight else "leaves"
