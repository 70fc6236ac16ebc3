"""What becomes of groups that are too old for the next training step: by `overdue`, once a batch was taken."""

from burnish.rollout.scheduler_admission import admit_one
from burnish.rollout.scheduler_endings import end, forget, is_stale, tell_ended
from burnish.rollout.scheduler_groups import Group
from burnish.rollout.scheduler_state import State


def settle_overdue(state: State, now_s: float) -> None:
    """The next step has another number: say what becomes of groups that are too old for it."""
    if state.version >= state.last_version:
        for group in state.batches.groups():
            end(state, group, "surplus", now_s)
        return
    if state.config.overdue == "mask" and state.is_held:
        _pause_all(state)
    for group in state.batches.groups():
        if group.version is None or group.version + state.bound(group) >= state.version:
            continue
        if group.is_ready and not is_stale(state, group):
            continue
        if state.config.overdue == "restart":
            _restart(state, group, now_s)
        elif group.is_ready or state.config.overdue == "drop":
            end(state, group, "stale", now_s)


def _pause_all(state: State) -> None:
    for group in state.batches.groups():
        phases = enumerate(member.phase for member in group.members)
        state.pause += [group.ticket(index) for index, phase in phases if phase == "sampling"]


def _restart(state: State, group: Group, now_s: float) -> None:
    prompt = group.prompt
    forget(state, group, now_s)
    if not state.intake.can_pay(prompt):
        tell_ended(state, prompt, "budget", 0)
        return
    attempt = 1 + max(member.attempt for member in group.members)
    state.restarted.append(prompt.group_id)
    admit_one(state, prompt, group.level, now_s, num_restarts=group.num_restarts + 1, attempt=attempt)
