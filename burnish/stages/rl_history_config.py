"""Options of stage `rl` about stored histories and limited interaction, and which of them contradict others."""

from pydantic import Field

from burnish.core.config import Strict
from burnish.objectives.dialects import Choice
from burnish.rollout.aim import AimConfig
from burnish.stages.rl_loss import is_linear, is_on_policy, needs_values, reads_sampler


class ReplayConfig(Strict):
    """How stored replies are replayed (`rl_experience`)."""

    share: float = Field(default=0.25, gt=0, lt=1)
    """Of an update's replies."""
    cap: float = Field(default=2.0, ge=1)
    """No token's importance weight is larger."""
    bound: float = Field(default=0.5, gt=0)
    """Replies that are on average further from the policy, in nats a token, are dropped."""
    max_uses: int = Field(default=4, ge=1)
    """How often each stored reply is taken at most."""


def history_fault(
    *, histories: str | None, aim: AimConfig | None, replay: ReplayConfig | None, max_interactions: int | None,
    group_size: int, max_staleness: int,
) -> str:  # fmt: skip
    """Why these options do not go together; empty if they do."""
    given = {"max_interactions": max_interactions, "histories": histories, "aim": aim, "replay": replay}
    named = " and ".join(name for name, value in given.items() if value is not None)
    if max_staleness and named:
        return (
            f"{named} with max_staleness above 0: groups begin before it is known what earlier ones cost and showed; "
            f"set max_staleness to 0, or leave {named} out"
        )
    if histories is not None and aim is None and replay is None:
        return "histories are read by aim and replay, and neither is set; add one, or take stage 'offline'"
    if replay is not None and histories is None:
        return 'replay has nothing to replay: set histories to the folder of a run, or to "" for this run\'s own'
    if max_interactions is not None and max_interactions < group_size:
        return f"max_interactions ({max_interactions}) is less than a group of {group_size} takes; raise it"
    return ""


def replay_fault(objective: str, choice: Choice) -> str:
    """Why an objective cannot take stored replies beside fresh ones; empty if it can."""
    if needs_values(choice):
        why = "has a value model, which stored replies would teach what an older policy earned"
    elif is_on_policy(choice):
        why = "takes replies to be of the policy that trains, and stored ones are not"
    elif reads_sampler(choice):
        why = "takes its ratio to the sampler itself, so that replay's weights would count it twice"
    elif not is_linear(choice):
        why = "is not linear in its advantages, which replay's weights would multiply"
    else:
        return ""
    return f"objective {objective!r} {why}; take 'grpo' or 'dapo', or leave replay out and put a stage 'offline' before"
