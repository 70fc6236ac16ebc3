"""What a step of RL measures about its rollouts."""

from collections import Counter, defaultdict
from statistics import fmean

from burnish.rollout.collect import StepRollouts


def step_metrics(rollouts: StepRollouts) -> dict[str, float]:
    """Mean reward a domain over *all* groups (also those without signal), lengths, endings, losses of any kind."""
    members = rollouts.members
    rewards: defaultdict[str, list[float]] = defaultdict(list)
    for group in [*rollouts.kept, *rollouts.dropped]:
        rewards[group.source_name] += group.rewards
    verdicts = Counter(member.verdict.kind for member in members if member.verdict is not None)
    return {
        **{f"reward/{name}": fmean(values) for name, values in sorted(rewards.items()) if values},
        **{f"verdict/{kind}": count for kind, count in sorted(verdicts.items())},
        "num_groups": len(rollouts.kept),
        "num_groups_without_signal": len(rollouts.dropped),
        "reply_tokens": fmean(member.num_sampled for member in members),
        "cut_off_share": fmean(member.stop_reason == "length" for member in members),
        "tokens_sampled": sum(member.num_sampled for member in members),
    }
