"""What rewards were made of, by domain and part, and the alarm where process parts are collected instead of solving.

`reward/DOMAIN/part/NAME` is the mean of a part as verdicts say it, paid or not, over all groups of a step;
`reward/DOMAIN/total` the mean of what the parts come to. Domains whose reward is the score alone have neither.
"""

from collections import defaultdict
from collections.abc import Mapping
from statistics import fmean

from burnish.core import metrics as metrics_log
from burnish.core.types import Verdict
from burnish.rewards.parts import SCORE, RewardParts
from burnish.rollout.collect import StepRollouts
from burnish.rollout.farming import Habits, farming_message, is_farming
from burnish.stages.rl_domains import Rule
from burnish.stages.session import Session

Histories = dict[str, list[Habits]]
TOTAL, SOLVED, HABITS, ALARM = "total", "solved", "process_of_failures", "process_alarm"


def is_part(metric: str) -> bool:
    """Whether a metric under `reward/` is one of these."""
    return "/part/" in metric or metric.rpartition("/")[2] in (TOTAL, SOLVED, HABITS, ALARM)


def part_metrics(rules: Mapping[str, Rule], rollouts: StepRollouts) -> dict[str, float]:
    """The parts of each domain that has any beside its score."""
    verdicts: defaultdict[str, list[Verdict]] = defaultdict(list)
    for group in [*rollouts.kept, *rollouts.dropped]:
        verdicts[group.source_name] += [member.verdict for member in group.scored if member.verdict is not None]
    return {
        f"reward/{name}/{what}": value
        for name, some in sorted(verdicts.items())
        if some and rules[name].reward.names != [SCORE]
        for what, value in _measured(rules[name].reward, some).items()
    }


def _measured(reward: RewardParts, verdicts: list[Verdict]) -> dict[str, float]:
    found = [reward.found(verdict) for verdict in verdicts]
    means = {f"part/{part}": fmean(parts[part] for parts in found) for part in reward.names}
    means[TOTAL] = fmean(map(reward.total, verdicts))
    if reward.process:
        failures = [reward.process_share(verdict) for verdict in verdicts if not reward.is_solved(verdict)]
        means[SOLVED] = 1 - len(failures) / len(verdicts)
        means |= {HABITS: fmean(failures)} if failures else {}
    return means


def watch_habits(
    session: Session, rules: Mapping[str, Rule], histories: Histories, newest: Mapping[str, float]
) -> dict[str, float]:
    """Say where a domain's process parts are farmed; returns 1 or 0 for each domain that has some."""
    alarms: dict[str, float] = {}
    for name in (name for name, rule in rules.items() if rule.reward.process):
        if name not in histories:  # the stage begins, or goes on in a new process
            histories[name] = _kept(session, name)
        if (habits := _habits(name, newest)) is None:
            continue
        histories[name].append(habits)
        alarms[f"reward/{name}/{ALARM}"] = float(is_farming(histories[name]))
        if (message := farming_message(name, histories[name])) is not None:
            session.console.print(message, style="yellow", markup=False)
    return alarms


def _kept(session: Session, name: str) -> list[Habits]:
    rows = metrics_log.read(session.folder.path / "metrics.jsonl")
    found = [_habits(name, row.values) for row in rows if row.stage == session.stage_name]
    return [habits for habits in found if habits is not None]


def _habits(name: str, values: Mapping[str, float]) -> Habits | None:
    """What a step says of a domain; nothing where all of its replies solved their task, or there were none."""
    solved, process = values.get(f"reward/{name}/{SOLVED}"), values.get(f"reward/{name}/{HABITS}")
    return None if solved is None or process is None else Habits(solved, process)
