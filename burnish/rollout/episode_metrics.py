"""What episodes were like: turns, endings, the parts of their verdicts. Nothing where there were none."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from statistics import fmean

from burnish.core.types import Trajectory


def episode_metrics(members: Sequence[Trajectory]) -> dict[str, float]:
    """Means over the episodes among these attempts; parts of single tests and files are left out."""
    episodes = [member for member in members if member.steps]
    if not episodes:
        return {}
    endings = Counter(episode.ended_by for episode in episodes)
    scored = [episode.verdict.parts for episode in episodes if episode.verdict and episode.verdict.kind == "scored"]
    return {
        "episode/turns": fmean(len(episode.steps) for episode in episodes),
        "episode/world_s": fmean(sum(step.step_s for step in episode.steps) for episode in episodes),
        **{f"episode/ended_by_{name}": number / len(episodes) for name, number in sorted(endings.items())},
        **{f"episode/{name}": value for name, value in mean_parts(scored).items()},
    }


def mean_parts(several: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The mean of each part over the verdicts that have it."""
    values: defaultdict[str, list[float]] = defaultdict(list)
    for parts in several:
        for name, value in parts.items():
            if not name.startswith(("test ", "file:")):
                values[name].append(value)
    return {name: fmean(found) for name, found in sorted(values.items())}
