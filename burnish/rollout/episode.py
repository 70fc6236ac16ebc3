"""One episode as it grows: a stream of token ids, of which the policy's own are marked, and what each turn led to.

Earlier turns are never rendered or tokenised again (`chat.continue_ids`): the prompt of a turn is the ids so far and
those of the observation. An observation is written down only when a turn follows it, so that an episode ends with the
last turn that was said.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from burnish.chat.template import Chat
from burnish.chat.tool_calls import Speech
from burnish.core.recipe import Limit
from burnish.core.seeds import derive
from burnish.core.types import Completion, Message, Step, StopReason, Trajectory, Verdict, version_changes
from burnish.domains import Action, Environment, Judgement, Observation, Tool
from burnish.engine.types import Request
from burnish.rollout.means import Attempt


@dataclass(slots=True, kw_only=True, eq=False)
class Episode:
    """See the module's docstring. `run` counts how often it was begun anew."""

    attempt: Attempt
    member: int
    run: int
    environment: Environment
    speech: Speech
    tools: Sequence[Tool]
    token_ids: tuple[int, ...] = ()
    was_sampled: list[bool] = field(default_factory=list[bool])
    logprobs: list[float] = field(default_factory=list[float])
    versions: list[int] = field(default_factory=list[int])
    """Of each sampled token."""
    steps: list[Step] = field(default_factory=list[Step])
    messages: list[Message] = field(default_factory=list[Message])
    stop_reason: StopReason = "length"
    limit: Limit | None = None
    """The limit that was hit."""
    is_last: bool = False
    """The turn under way is the last, whatever it leads to."""
    is_helped: bool = False
    """Another policy goes on."""
    num_helped: int = 0
    started_s: float = field(default_factory=time.monotonic)
    asked_s: float = field(default_factory=time.monotonic)
    """When what is waited for was asked for."""

    @property
    def num_tokens_sampled(self) -> int:
        """How many tokens the policy wrote."""
        return sum(self.was_sampled)

    @property
    def num_characters(self) -> int:
        """How much the policy was told after the first message."""
        return sum(len(step.observation) for step in self.steps)

    def begin(self, chat: Chat, messages: Sequence[Message]) -> None:
        """Write the first prompt."""
        shown, tools = self.speech.opening(messages, self.tools)
        self.messages = list(shown)
        self._give(chat.prompt_ids(shown, tools))

    def request(self, max_new_tokens: int) -> Request:
        """Ask for the next turn."""
        params = replace(self.attempt.params, max_new_tokens=max_new_tokens)
        return Request(prompt_ids=self.token_ids, seed=self._seed(len(self.steps)), params=params)

    def sampled(self, completion: Completion, answer: str) -> Action:
        """Write down a turn of the policy; returns what it asks for."""
        first = len(self.token_ids)
        self.token_ids += completion.token_ids
        self.was_sampled += [True] * len(completion.token_ids)
        self.logprobs += completion.logprobs
        self.versions += completion.versions
        self.stop_reason = completion.stop_reason
        return self._said(first, completion.text, answer, completion.versions)

    def helped(self, chat: Chat, text: str) -> Action:
        """Write down a turn that another policy said: none of its tokens trains."""
        first = len(self.token_ids)
        self._give((*self.token_ids, *chat.reply_ids(text)))
        self.num_helped += 1
        return self._said(first, text, text)

    def answered(self, observation: Observation) -> None:
        """Note what the last turn led to."""
        now_s = time.monotonic()
        self.steps[-1] = replace(
            self.steps[-1], observation=observation.text, events=observation.events, step_s=now_s - self.asked_s
        )

    def go_on(self, chat: Chat, text: str) -> None:
        """Write down what the policy is told before its next turn."""
        told = Message(role=self.speech.role, content=text)
        self.messages.append(told)
        self._give(chat.continue_ids(self.token_ids, [told]))

    def trajectory(self, judgement: Judgement, *, version: int, verify_s: float) -> Trajectory:
        """The record of the whole; `version` is that of the weights where nothing was sampled."""
        task, versions = self.attempt.draw.task, self.versions or [version]
        places = [place for place, was_sampled in enumerate(self.was_sampled) if was_sampled]
        verdict = judgement.verdict
        if self.num_helped and verdict.kind == "scored":
            verdict = replace(verdict, parts={**verdict.parts, "turns_of_helper": float(self.num_helped)})
        return Trajectory(
            group_id=self.attempt.group_id, member=self.member, task_id=task.id, prompt_hash=task.prompt_hash,
            seed=self._seed(0), token_ids=self.token_ids, was_sampled=tuple(self.was_sampled),
            logprobs=tuple(self.logprobs), reply=self.steps[-1].reply if self.steps else "",
            stop_reason="length" if self.limit else self.stop_reason,
            oldest_version=min(versions), newest_version=max(versions), verdict=verdict,
            sample_s=sum(step.sample_s for step in self.steps), verify_s=verify_s,
            steps=tuple(
                replace(step, earned=judgement.earned.get(number, 0.0)) for number, step in enumerate(self.steps)
            ),
            ended_by=self.limit or ("done" if verdict.kind == "scored" else verdict.kind),
            version_changes=version_changes(places, self.versions),
        )  # fmt: skip

    def _said(self, first: int, text: str, answer: str, versions: Sequence[int] = (0,)) -> Action:
        self.steps.append(
            Step(
                first=first, end=len(self.token_ids), reply=text, sample_s=time.monotonic() - self.asked_s,
                oldest_version=min(versions), newest_version=max(versions),
            )
        )  # fmt: skip
        self.messages.append(Message(role="assistant", content=text))
        if not self.tools:
            return Action(text=answer)
        read = self.speech.read(answer, self.tools)
        return Action(text=answer, fault=read) if isinstance(read, str) else Action(text=answer, call=read)

    def _give(self, token_ids: tuple[int, ...]) -> None:
        num_more = len(token_ids) - len(self.token_ids)
        self.token_ids = token_ids
        self.was_sampled += [False] * num_more
        self.logprobs += [0.0] * num_more

    def _seed(self, turn: int) -> int:
        return seed_of(self.attempt.seed, self.member, self.run, turn)


def seed_of(seed: int, member: int, run: int, turn: int) -> int:
    """What a turn is drawn by: its group's seed, the member, how often that was begun before, and the turn."""
    return derive(seed, member, run, turn)


def failed(reason: Verdict) -> Judgement:
    """The judgement on an episode that came to no end."""
    return Judgement(reason, {})
