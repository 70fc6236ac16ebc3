"""Which tokens go through the model next: continuous batching over any decode path.

One rule drives everything. A lane is a sequence of which a branch of the path holds a part; what is missing is fed,
and when nothing is missing the next token is drawn. So a prompt, a sample that decodes, and a sample that was
pre-empted and must be computed again are one case.

- A request waits in line until its samples have a place among `max_rows`; then its prompt is computed, once, in
  chunks that share a budget with the rows that decode. Its samples fork from it as places come free.
- If there is no room even after all kept prefixes are gone, the youngest lane gives up what was computed of it and
  goes on later with the same tokens and the same numbers. The oldest always goes on.
- New weights: kept prefixes and prompts are computed anew, samples under way go on with the keys and values that
  they have, and each token is stamped with the version that drew it.

With `exact`, a token is computed in a product whose shape follows from its own sequence: prompts in chunks that are
cut at multiples of 64, and all after them one by one.
"""

import math
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from burnish.chat.template import Chat
from burnish.core.errors import InvariantError
from burnish.engine.drawing import Drawn, draw_rows, logprobs_of
from burnish.engine.room import EXACT_CHUNK, Room
from burnish.engine.rows import Group, Lane, Row, completion, new_group, new_row, stop_reason
from burnish.engine.shaping import DeadEnd, Shaper
from burnish.engine.steps import Steps, Work
from burnish.engine.types import Event, Failed, Finished, Request, Sampled


class Limits(NamedTuple):
    """How much is under way at once: sequences, and tokens of one forward (samples that decode come first)."""

    max_rows: int
    step_tokens: int = 1024


class _Task(NamedTuple):
    """The next tokens of a lane."""

    lane: Lane
    work: Work


class Scheduler:
    """See the module's docstring. `open_shaper` gives what shapes a sample's logits."""

    def __init__(
        self, steps: Steps, chat: Chat, limits: Limits, *,
        version: Callable[[], int], open_shaper: Callable[[Request], Shaper | None], exact: bool = False,
    ) -> None:  # fmt: skip
        self._steps, self._chat, self._limits, self._exact = steps, chat, limits, exact
        self._read_version, self._open_shaper = version, open_shaper
        self._room = Room(steps, exact=exact)
        self._version, self._epoch = version(), 0
        self._queue: deque[Group] = deque()
        self._groups: list[Group] = []
        self._rows: list[Row] = []
        self._num_submitted = 0
        self.counts: Counter[str] = Counter()

    @property
    def num_waiting(self) -> int:
        """How many requests have not begun."""
        return len(self._queue)

    @property
    def num_held(self) -> int:
        """How many tokens of samples under way are computed; prompts that are alike count once."""
        prompts = {tuple(row.lane.token_ids[: row.lane.num_given]) for row in self._rows}
        return sum(map(len, prompts)) + sum(len(row.token_ids) for row in self._rows)

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to do."""
        return not (self._queue or self._groups or self._rows)

    def submit(self, request: Request, *, keeps_samples: bool = False) -> int:
        """Put a request in line; with `keeps_samples` finished samples stay, for prompts that continue them."""
        self._num_submitted += 1
        self._queue.append(new_group(self._num_submitted, request, keeps_samples=keeps_samples))
        return self._num_submitted

    def cancel(self, number: int) -> None:
        """Drop what is left of a request; no effect if that is nothing."""
        self._queue = deque(group for group in self._queue if group.number != number)
        for group in self._groups:
            if group.number == number:
                self._room.close(group.lane)
        self._groups = [group for group in self._groups if group.number != number]
        self._leave([row for row in self._rows if row.group.number == number])

    def forget(self) -> None:
        """Let go of all kept prefixes."""
        self._room.forget()

    def take_over(self) -> None:
        """Take over weights that may have changed: nothing that was computed with others is used for a new sample."""
        self._version = self._read_version()
        self._epoch += 1
        self._steps.refresh()
        self.forget()
        for group in self._groups:
            self._restart(group)

    @torch.inference_mode()
    def step(self) -> list[Event]:
        """Feed once, and draw for all that is then complete."""
        if self._read_version() != self._version:
            self.take_over()
        self._begin_groups()
        tasks = self._plan()
        hidden_N_D = self._feed(tasks) if tasks else torch.empty(0, 0)
        return self._draw(hidden_N_D, {id(task.lane): i for i, task in enumerate(tasks) if not task.lane.num_missing})

    def _begin_groups(self) -> None:
        """Take requests from the line while there is a place for a sample of theirs."""
        num_taken = len(self._rows) + sum(group.num_pending for group in self._groups)
        while self._queue and num_taken < self._limits.max_rows:
            self._groups.append(self._queue.popleft())
            num_taken += self._groups[-1].num_pending

    def _plan(self) -> list[_Task]:
        """Rows that decode; then, oldest first and within what is left of the budget, lanes that lack more."""
        decoding = [row.lane for row in self._rows if row.lane.branch is not None and row.lane.num_missing == 1]
        tasks = [_Task(lane, _work(lane, 1)) for lane in decoding]
        self._make_room(tasks)
        lagging = [row.lane for row in self._rows if row.lane.branch is None or row.lane.num_missing > 1]
        lagging += [group.lane for group in self._groups if group.hidden_D is None]
        budget = max(self._limits.step_tokens - len(tasks), EXACT_CHUNK)
        for lane in sorted(lagging, key=lambda lane: lane.age):
            begins = lane.branch is None
            if begins and not self._room.open(lane, [group.lane for group in self._groups], self._epoch):
                continue
            num_tokens = self._span(lane, budget)
            # A lane begins only if there is room for all of it, so that lanes seldom begin in vain.
            needed = lane.num_missing if begins and tasks else num_tokens
            if not 0 < num_tokens <= budget or not self._fits(tasks, _Task(lane, _work(lane, needed))):
                if begins:
                    self._room.close(lane)
                break
            tasks.append(_Task(lane, _work(lane, num_tokens)))
            self.counts["prefix_tokens"] += lane.num_fed if begins else 0
            budget -= num_tokens
        return tasks

    def _span(self, lane: Lane, budget: int) -> int:
        """How many tokens of a lane to feed."""
        if not self._exact:
            return min(lane.num_missing, budget)
        if lane.num_fed >= lane.num_given:
            return 1
        return min(lane.num_given, (lane.num_fed // EXACT_CHUNK + 1) * EXACT_CHUNK) - lane.num_fed

    def _fits(self, tasks: Sequence[_Task], task: _Task) -> bool:
        """Whether a task has room beside others; where there are none, it is the oldest, and the rest give way."""
        if not tasks:
            self._make_room([task])
        return self._room.fits([*(other.work for other in tasks), task.work])

    def _make_room(self, tasks: list[_Task]) -> None:
        """Let the youngest lanes give way until the tasks fit; the first task stays."""
        while not self._room.fits([task.work for task in tasks]):
            lanes = [*(row.lane for row in self._rows), *(group.lane for group in self._groups)]
            others = [lane for lane in lanes if lane.branch is not None and lane is not tasks[0].lane]
            youngest = max(others, key=lambda lane: lane.age)
            self._room.close(youngest)
            tasks[:] = [task for task in tasks if task.lane is not youngest]
            for group in self._groups:
                if group.lane is youngest:
                    self._restart(group)
            self.counts["preempted"] += 1

    def _restart(self, group: Group) -> None:
        """Compute a prompt anew, for the samples that have not begun."""
        self._room.close(group.lane)
        group.hidden_D = None
        if group.lane.is_measured:
            group.prompt_logprobs = []

    def _feed(self, tasks: Sequence[_Task]) -> Tensor:
        """Feed; returns the hidden state of each task's last token."""
        every_token = any(task.lane.is_measured for task in tasks)
        hidden_N_D = self._steps.feed([task.work for task in tasks], every_token=every_token)
        ends = torch.tensor([len(task.work.token_ids) for task in tasks]).cumsum(0)
        measured = {id(group.lane): group for group in self._groups if group.lane.is_measured}
        for (lane, work), end in zip(tasks, ends.tolist(), strict=True):
            if lane.is_measured:
                hidden_T_D = hidden_N_D[end - len(work.token_ids) : end]
                self._measure(measured[id(lane)], hidden_T_D)
            lane.num_fed += len(work.token_ids)
        self.counts["fed_tokens"] += int(ends[-1])
        self.counts["forwards"] += 1
        return hidden_N_D[ends - 1] if every_token else hidden_N_D

    def _measure(self, group: Group, hidden_T_D: Tensor) -> None:
        """Note how probable those of the prompt's tokens are that come after these hidden states."""
        lane = group.lane
        following = lane.token_ids[lane.num_fed + 1 : lane.num_fed + 1 + len(hidden_T_D)]
        group.prompt_logprobs += logprobs_of(self._steps, hidden_T_D, following)
        lane.is_measured = lane.num_fed + len(hidden_T_D) < lane.num_given

    def _draw(self, hidden_N_D: Tensor, index_of: Mapping[int, int]) -> list[Event]:
        """Draw for the rows that are complete, and for the samples that begin; `index_of` is by the lane's identity."""
        rows = [row for row in self._rows if id(row.lane) in index_of]
        parts = [hidden_N_D[torch.tensor([index_of[id(row.lane)] for row in rows])]] if rows else []
        for group in self._groups:
            if id(group.lane) in index_of:
                group.hidden_D = hidden_N_D[index_of[id(group.lane)]].clone()
            if group.hidden_D is not None and (begun := self._begin_samples(group)):
                rows += begun
                parts.append(group.hidden_D.expand(len(begun), -1))
        for group in self._groups:
            if not group.num_pending:
                self._room.keep(group.lane, self._epoch)
        self._groups = [group for group in self._groups if group.num_pending]
        return self._settle(rows, draw_rows(self._steps, torch.cat(parts), rows)) if rows else []

    def _begin_samples(self, group: Group) -> list[Row]:
        """Fork samples from a prompt that is computed, while there are places."""
        begun: list[Row] = []
        while group.num_pending and len(self._rows) < self._limits.max_rows:
            row = new_row(group, self._open_shaper(group.request))
            row.lane.branch = self._steps.open(group.lane.branch, adapter=group.lane.adapter)
            row.lane.num_fed, row.lane.epoch = group.lane.num_fed, self._epoch
            self._rows.append(row)
            begun.append(row)
        return begun

    def _settle(self, rows: Sequence[Row], drawn: Sequence[Drawn | DeadEnd]) -> list[Event]:
        """Note what was drawn; rows that have ended leave."""
        events: list[Event] = []
        ended: list[Row] = []
        for row, token in zip(rows, drawn, strict=True):
            came = self._note(row, token)
            events += came
            if not isinstance(came[-1], Sampled):
                ended.append(row)
        self._leave(ended)
        return events

    def _note(self, row: Row, token: Drawn | DeadEnd) -> list[Event]:
        number = row.group.number
        if isinstance(token, DeadEnd):
            return [Failed(number, row.sample, token)]
        if not math.isfinite(token.logprob):
            return [Failed(number, row.sample, _not_a_distribution(row, token))]
        row.lane.token_ids.append(token.token_id)
        row.logprobs.append(token.logprob)
        row.versions.append(self._version)
        if token.top:
            row.tops.append(token.top)
        events: list[Event] = [Sampled(number, row.sample, token.token_id, token.logprob)]
        reason = stop_reason(row, self._chat)
        if reason is not None:
            events.append(Finished(number, row.sample, completion(row, self._chat, reason)))
        return events

    def _leave(self, rows: Sequence[Row]) -> None:
        for row in rows:
            # What was decoded token by token has other bits than a chunk of a prompt: `exact` cannot use it again.
            if row.group.keeps_samples and not self._exact:
                self._room.keep(row.lane, self._epoch)
            else:
                self._room.close(row.lane)
        gone = {id(row) for row in rows}
        self._rows = [row for row in self._rows if id(row) not in gone]


def _not_a_distribution(row: Row, token: Drawn) -> InvariantError:
    return InvariantError(
        f"token {len(row.logprobs)} of sample {row.sample} of request {row.group.number} has log-probability "
        f"{token.logprob}: the model's logits are no finite numbers; go back to a checkpoint before that, and lower "
        "learning_rate or max_grad_norm"
    )


def _work(lane: Lane, num_tokens: int) -> Work:
    assert lane.branch is not None
    return Work(lane.branch, lane.token_ids[lane.num_fed : lane.num_fed + num_tokens])
