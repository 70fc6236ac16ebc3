"""What is under way in the scheduler: a lane for each sequence that is computed, and who it is computed for."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from burnish.chat.template import Chat
from burnish.core.seeds import derive
from burnish.core.types import Completion, StopReason
from burnish.engine.shaping import Shaper
from burnish.engine.types import Request

_UNIFORMS = 64


@dataclass(slots=True, kw_only=True)
class Lane:
    """A sequence, and how much of it its branch holds; without a branch, nothing. `age` orders lanes, oldest first.

    Of a measured lane every token must be fed, since its own log-probabilities are wanted. `epoch` numbers the weights
    that its branch was begun with.
    """

    age: tuple[int, int]
    token_ids: list[int]
    num_given: int
    adapter: str | None
    is_measured: bool = False
    branch: int | None = None
    num_fed: int = 0
    epoch: int = 0

    @property
    def num_missing(self) -> int:
        """How many of its tokens the branch does not hold."""
        return len(self.token_ids) - self.num_fed


@dataclass(slots=True, kw_only=True)
class Group:
    """A request under way: its prompt, computed once, and how many of its samples have begun.

    `hidden_D` is the prompt's last hidden state, once it is computed: all samples draw their first token from it.
    """

    number: int
    request: Request
    lane: Lane
    keeps_samples: bool
    num_begun: int = 0
    hidden_D: Tensor | None = None
    prompt_logprobs: list[float] = field(default_factory=list[float])

    @property
    def num_pending(self) -> int:
        """How many samples have not begun."""
        return self.request.num_samples - self.num_begun


@dataclass(slots=True, kw_only=True)
class Row:
    """A sample under way. Its numbers come from (seed, sample) alone, so that it is the same whenever it goes on."""

    group: Group
    sample: int
    lane: Lane
    shaper: Shaper | None
    generator: torch.Generator
    is_plain: bool
    """Only the temperature matters: a decode path draws it."""
    uniforms: list[float] = field(default_factory=list[float])
    logprobs: list[float] = field(default_factory=list[float])
    versions: list[int] = field(default_factory=list[int])
    tops: list[tuple[tuple[int, float], ...]] = field(default_factory=list[tuple[tuple[int, float], ...]])

    @property
    def token_ids(self) -> list[int]:
        """What was sampled so far."""
        return self.lane.token_ids[self.lane.num_given :]

    @property
    def uniform(self) -> float:
        """The number that the next token is drawn with."""
        if len(self.logprobs) == len(self.uniforms):
            self.uniforms += torch.rand(_UNIFORMS, generator=self.generator).tolist()
        return self.uniforms[len(self.logprobs)]


def new_group(number: int, request: Request, *, keeps_samples: bool) -> Group:
    """Take up a request."""
    prompt_ids = list(request.prompt_ids)
    lane = Lane(
        age=(number, -1), token_ids=prompt_ids, num_given=len(prompt_ids), adapter=request.adapter,
        is_measured=request.prompt_logprobs,
    )  # fmt: skip
    return Group(number=number, request=request, lane=lane, keeps_samples=keeps_samples)


def new_row(group: Group, shaper: Shaper | None) -> Row:
    """Begin the group's next sample, with nothing computed of it."""
    sample, prompt = group.num_begun, group.lane
    group.num_begun += 1
    lane = Lane(
        age=(group.number, sample), token_ids=[*prompt.token_ids], num_given=prompt.num_given, adapter=prompt.adapter
    )
    generator = torch.Generator().manual_seed(derive(group.request.seed, sample))
    params = group.request.params
    is_plain = shaper is None and not params.top_logprobs and (params.is_trainable or params.temperature == 0)
    return Row(group=group, sample=sample, lane=lane, shaper=shaper, generator=generator, is_plain=is_plain)


def stop_reason(row: Row, chat: Chat) -> StopReason | None:
    """Why a row ends with its last token, or None if it goes on."""
    params = row.group.request.params
    if row.lane.token_ids[-1] in chat.stop_ids:
        return "eos"
    if params.stop and _ends_with_stop(row, chat):
        return "stop_string"
    return "length" if len(row.logprobs) >= params.max_new_tokens else None


def completion(row: Row, chat: Chat, reason: StopReason) -> Completion:
    """What came of a row that has ended."""
    text = chat.decode(row.token_ids)
    if reason == "stop_string":
        text = text[: min(at for stop in row.group.request.params.stop if (at := text.find(stop)) >= 0)]
    return Completion(
        token_ids=tuple(row.token_ids),
        logprobs=tuple(row.logprobs),
        versions=tuple(row.versions),
        text=text,
        stop_reason=reason,
        prompt_logprobs=tuple(row.group.prompt_logprobs),
        top_logprobs=tuple(row.tops),
    )


def _ends_with_stop(row: Row, chat: Chat) -> bool:
    """Whether the last token completed a stop string.

    Only as many tokens as one can span are decoded; all of them where that finds one, since a tail that begins within
    a character reads otherwise than the text.
    """
    stops = row.group.request.params.stop
    tail = chat.decode(row.token_ids[-max(len(stop.encode()) for stop in stops) - 4 :])
    if not any(stop in tail for stop in stops):
        return False
    text = chat.decode(row.token_ids)
    return any(stop in text for stop in stops)
