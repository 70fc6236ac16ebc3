"""What a step of RL measures about its rollouts."""

from collections import Counter, defaultdict
from statistics import fmean

from burnish.rollout.collect import StepRollouts
from burnish.rollout.episode_metrics import episode_metrics
from burnish.rollout.interactions import num_of


def mean_scores(rollouts: StepRollouts) -> dict[str, float]:
    """The mean score of each domain over *all* groups (also those without signal)."""
    scores: defaultdict[str, list[float]] = defaultdict(list)
    for group in [*rollouts.kept, *rollouts.dropped]:
        scores[group.source_name] += group.rewards
    return {name: fmean(values) for name, values in sorted(scores.items()) if values}


def step_metrics(rollouts: StepRollouts) -> dict[str, float]:
    """Mean scores, lengths, endings, losses of any kind."""
    members = rollouts.members
    verdicts = Counter(member.verdict.kind for member in members if member.verdict is not None)
    return {
        **{f"reward/{name}": score for name, score in mean_scores(rollouts).items()},
        **{f"verdict/{kind}": count for kind, count in sorted(verdicts.items())},
        "num_groups": len(rollouts.kept),
        "num_groups_without_signal": len(rollouts.dropped),
        "reply_tokens": fmean(member.num_sampled for member in members),
        "cut_off_share": fmean(member.stop_reason == "length" for member in members),
        "interactions": num_of(members),
        "tokens_sampled": sum(member.num_sampled for member in members),
        **episode_metrics(members),
    }
