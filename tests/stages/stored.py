"""Trajectories as a run of the tiny model might have stored them."""

from burnish.core.types import Message, Task, Trajectory, Verdict
from tests.fakes import tiny_chat


def trajectory(question: str, reply: str, score: float | None, member: int = 0, group: str = "0/0") -> Trajectory:
    chat = tiny_chat()
    messages = (Message(role="user", content=question),)
    shown = chat.demonstration(messages, reply)
    verdict = Verdict.unscorable("nobody knows") if score is None else Verdict.scored(score)
    return Trajectory(
        group_id=group,
        member=member,
        task_id="arithmetic/train/1/0",
        prompt_hash=Task(id="", domain="", messages=messages, truth={}).prompt_hash,
        seed=1,
        token_ids=shown.token_ids,
        was_sampled=shown.was_sampled,
        logprobs=tuple(-0.5 if was_sampled else 0.0 for was_sampled in shown.was_sampled),
        reply=reply,
        stop_reason="eos",
        oldest_version=7,
        newest_version=7,
        verdict=verdict,
    )
