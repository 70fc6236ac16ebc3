"""What every task set owes before it trains anything: the canon, as proofs on real tasks.

| claim | tried on |
|---|---|
| equal seeds, equal tasks; the id names the task | each task, in a second, fresh domain, from the last to the first |
| gold scores 1 | each task with gold |
| an empty reply scores 0; junk and `I don't know` score 0 | each task |
| the prompt said back scores 0 | each task: all of it, its last line, its last word |
| another task's answer is not right | each task with gold, with the gold of another task |
| gold beside another answer is not right | each task with gold, with the gold of another task |
| hostile replies score nothing | `num_attacked` tasks, all of `burnish.rewards.hostile` |
| three verdicts agree | right, wrong and hostile replies to `num_attacked` tasks |
| the verifier needs no network | all of the above (`offline`) |

Decisions: a fixed text may be right by chance where answers are few ("0", "B"), so a hostile reply is a hole if
it is paid for *two tasks with different gold*; the prompt said back, or another task's answer, if it is paid for two
tasks and more than a tenth; a prompt's end, if it is paid for two tasks with different gold and for more than half,
because honest questions end in "yes or no?". What is not *scored* counts as a hole too: a reply must not be able to
break its verifier. Golds of equal truth are one answer, however they are written. Replies that gold and another
answer make are in conflict in either order; a grader that reads the first of two blocks, or the last of two lines, is
sound, one that takes any of them is not. Where another task's answer is right too (a graph has many colourings),
there is no conflict.
Covered: single-turn domains. Not covered: whether a wrong answer that looks right is caught; that is the domain's
own tests' matter.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from burnish.core.types import SPLITS, Split, Task, Verdict
from burnish.domains import Domain, task_id
from burnish.evals.offline import offline
from burnish.rewards.hostile import replies
from burnish.rollout.judge import Judge

JUNK = ("asdf qwer zxcv", "lorem ipsum dolor sit amet", "I do not know.", "I don't know", "?", " \n\t ")
FENCE = re.compile(r"\n[ \t]*```[ \t]*$")
SHORT = re.compile(r"[^\n#\\:]{1,40}")
LOCAL = frozenset({"none", "namespaces", "bubblewrap"})
"""Isolations that need no connection of their own."""
NUM_REPEATS = 3
MOST_SHOWN = 120
COINCIDENCES = 0.1
"""The largest share of tasks whose prompt, or another task's answer, may be right by chance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """One claim about one split: how much was tried, and what went against it."""

    split: Split
    claim: str
    num_tried: int
    against: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """How far a check goes; the attacks cost most."""

    num_attacked: int = 2
    is_brief: bool = False
    """Whether to try the short list of hostile replies only."""
    with_slow: bool = True
    """Whether to try what runs into limits of time on purpose."""
    is_isolated: bool = True
    """Whether to try what only a sandbox ends."""
    is_local: bool = True
    """Whether the box is on this machine: another machine's is reached by network."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A reply to a task, and what it is; `floor` is what it may earn honestly."""

    task: Task
    what: str
    reply: str
    floor: str = ""
    """The honest reply, empty where there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """A trial with its verdict and what its honest reply earns."""

    trial: Trial
    verdict: Verdict
    floor: float = 0.0

    @property
    def is_paid(self) -> bool:
        """Whether it earned more than its honest reply does."""
        return (self.verdict.score or 0.0) > self.floor + 1e-9

    @property
    def is_right(self) -> bool:
        """Whether it is paid in full."""
        return self.verdict.score == 1

    def __str__(self) -> str:
        verdict = self.verdict
        shown = f"{verdict.kind}, score {verdict.score}; {verdict.evidence[:MOST_SHOWN]}"
        return f"{self.trial.task.id}, {self.trial.what} ({shown})"


Try = Callable[[Sequence[Trial]], Awaitable[list[Tried]]]


def is_local(domain: Domain, isolation: str) -> bool:
    """Whether judging stays on this machine, so that a connection is the verifier's own doing."""
    return not domain.executes_code or isolation in LOCAL


def draw(domain: Domain, split: Split, seed: int, num: int) -> list[Task]:
    """The first tasks of a split."""
    size = domain.size(split)
    return [domain.task(split, seed, index) for index in range(num if size is None else min(num, size))]


def on_tasks(name: str, seed: int, tasks: Mapping[Split, Sequence[Task]], again: Domain) -> list[Proof]:
    """The claims that need no verdict; `again` is the same domain, opened a second time."""
    proofs: list[Proof] = []
    for split in SPLITS:
        drawn_back = [again.task(split, seed, index) for index in reversed(range(len(tasks[split])))]
        pairs = list(zip(tasks[split], reversed(drawn_back), strict=True))
        proofs.append(_proof(split, "equal seeds, equal tasks", len(pairs), [a.id for a, b in pairs if a != b]))
    for split in SPLITS:
        wrong = [t.id for index, t in enumerate(tasks[split]) if t.id != task_id(name, split, seed, index)]
        proofs.append(_proof(split, "the id names the task", len(tasks[split]), wrong))
    return proofs


async def on_verdicts(
    domain: Domain, tasks: Mapping[Split, Sequence[Task]], judge: Judge, extent: Extent
) -> list[Proof]:
    """The claims about what replies are worth."""

    async def attempt(trials: Sequence[Trial]) -> list[Tried]:
        verdicts = await asyncio.gather(*(judge(domain, trial.task, trial.reply) for trial in trials))
        honest = [trial for trial in trials if trial.floor]
        floors = await asyncio.gather(*(judge(domain, trial.task, trial.floor) for trial in honest))
        earned = {id(trial): floor.score or 0.0 for trial, floor in zip(honest, floors, strict=True)}
        return [
            Tried(trial=trial, verdict=verdict, floor=earned.get(id(trial), 0.0))
            for trial, verdict in zip(trials, verdicts, strict=True)
        ]

    proofs: list[Proof] = []
    with offline() as reached_for:
        for split in SPLITS:
            proofs += await _on_split(split, tasks[split], attempt, extent) if tasks[split] else []
    if extent.is_local:
        num_tried = sum(proof.num_tried for proof in proofs)
        proofs.append(_proof("train", "the verifier needs no network", num_tried, sorted(set(reached_for))))
    return proofs


async def _on_split(split: Split, tasks: Sequence[Task], attempt: Try, extent: Extent) -> list[Proof]:
    gold = await attempt([Trial(task=t, what="gold", reply=t.gold) for t in tasks if t.gold is not None])
    empty = await attempt([Trial(task=task, what="the empty reply", reply="") for task in tasks])
    junk = await attempt([Trial(task=task, what=repr(text), reply=text) for task in tasks for text in JUNK])
    echoes = [await attempt(trials) for trials in zip(*map(_echoes, tasks), strict=True)]
    others = await attempt([trial for task in tasks for trial in _other_answers(task, tasks)])
    lucky = {one.trial.task.id for one in others if one.is_right}
    groups = _mixtures([task for task in tasks if task.id not in lucky], tasks)
    mixed = await attempt([trial for group in groups for trial in group])
    attacked = await attempt(_attacks(apart(tasks, extent.num_attacked), extent))
    repeated = [tried.trial for tried in (*gold[:2], *empty[:1], *mixed[:2], *attacked[:3])]
    again = [await attempt(repeated) for _ in range(NUM_REPEATS)]
    return [
        _proof(split, "gold scores 1", len(gold), [str(one) for one in gold if not one.is_right]),
        _proof(split, "an empty reply scores 0", len(empty), _earning(empty)),
        _proof(split, "junk scores 0", len(junk), _earning(junk)),
        _proof(
            split,
            "the prompt said back scores 0",
            len(tasks),
            [*_more_than_chance(echoes[0]), *(line for echo in echoes[1:] for line in _mostly_right(echo))],
        ),
        _proof(split, "another task's answer is not right", len(others), _right_too_often(others)),
        _proof(split, "gold beside another answer is not right", len(groups), _any_answer(groups, mixed)),
        _proof(split, "hostile replies score nothing", len(attacked), _holes(attacked)),
        _proof(split, "three verdicts agree", len(repeated), _disagreeing(again)),
    ]


def apart(tasks: Sequence[Task], num: int) -> list[Task]:
    """Up to `num` tasks of which no two have one answer."""
    kept: list[Task] = []
    for task in tasks:
        if len(kept) < num and not any(_have_one_answer(task, other) for other in kept):
            kept.append(task)
    return kept


def _have_one_answer(one: Task, other: Task) -> bool:
    """Whether what is right for one task is right for another: their golds may be two texts that end in one answer."""
    if one.truth and dict(one.truth) == dict(other.truth):
        return True
    return one.gold == other.gold and (one.gold is not None or not one.truth)


def _mixtures(asked: Sequence[Task], tasks: Sequence[Task]) -> list[list[Trial]]:
    """Groups of replies of which not all may be right: gold with another task's gold, which is wrong there."""
    groups: list[list[Trial]] = []
    for task in asked:
        other = _other_gold(task, tasks)
        if task.gold is not None and other is not None:
            groups += [
                [Trial(task=task, what=f"gold with more, {reply[:MOST_SHOWN]!r}", reply=reply) for reply in group]
                for group in in_conflict(task.gold, other)
            ]
    return groups


def _other_gold(task: Task, tasks: Sequence[Task]) -> str | None:
    """The first gold of another task that is like this task's, and is no answer to this one."""
    others = (one for one in tasks if one.gold is not None and not _have_one_answer(one, task))
    return next((one.gold for one in others if _is_like(one, task)), None)


def _other_answers(task: Task, tasks: Sequence[Task]) -> list[Trial]:
    other = None if task.gold is None else _other_gold(task, tasks)
    return [] if other is None else [Trial(task=task, what=f"another's answer, {other[:MOST_SHOWN]!r}", reply=other)]


def _echoes(task: Task) -> list[Trial]:
    """What of a prompt may hold its answer: all of it, its last line, its last word."""
    prompt = task.messages[-1].content
    ends = {
        "its prompt": prompt,
        "its prompt's last line": prompt.strip().rpartition("\n")[2],
        "its prompt's last word": (prompt.split() or [""])[-1].strip("()[]{}<>\"'`*.,;:!?"),
    }
    return [Trial(task=task, what=what, reply=reply) for what, reply in ends.items()]


def _is_like(one: Task, other: Task) -> bool:
    """Whether two tasks are answered in one form: a letter beside a number is no second answer."""
    return _has_digit(one.gold or "") == _has_digit(other.gold or "")


def _has_digit(text: str) -> bool:
    return any(character.isdigit() for character in text)


def in_conflict(gold: str, other: str) -> list[tuple[str, ...]]:
    """Replies with two answers, in groups of which at least one must not be right."""
    if FENCE.search(gold):
        return [(f"{gold}\n\n{other}", f"{other}\n\n{gold}"), (FENCE.sub("\n]] no, wait {{\\g<0>", gold),)]
    if not SHORT.fullmatch(gold):
        return [(f"{gold}\n\n{other}", f"{other}\n\n{gold}")]
    return [(f"{gold} {other}",), (f"{gold}\n{other}",), (f"{gold} or {other}",), (f"{other} or {gold}",)]


def _attacks(tasks: Sequence[Task], extent: Extent) -> list[Trial]:
    return [
        Trial(task=task, what=f"hostile: {one.name}", reply=one.reply, floor=one.honest)
        for task in tasks
        for one in replies(task)
        if (one.is_brief or not extent.is_brief)
        and (extent.with_slow or not one.is_slow)
        and (extent.is_isolated or not one.needs_isolation)
    ]


def _earning(tried: Sequence[Tried]) -> list[str]:
    return [str(one) for one in tried if one.verdict.score != 0]


def _unscored(tried: Sequence[Tried]) -> list[str]:
    return [str(one) for one in tried if one.verdict.kind != "scored"]


def _more_than_chance(tried: Sequence[Tried]) -> list[str]:
    return _unscored(tried) + _too_many([one for one in tried if one.is_paid], len(tried))


def _mostly_right(tried: Sequence[Tried]) -> list[str]:
    """A prompt may well end in its answer ("yes or no?", the last of four choices), but not most prompts do."""
    paid = [one for one in tried if one.is_paid]
    is_leak = len(paid) > max(1, len(tried) / 2) and len(apart([one.trial.task for one in paid], 2)) > 1
    return _unscored(tried) + ([str(one) for one in paid] if is_leak else [])


def _right_too_often(tried: Sequence[Tried]) -> list[str]:
    return _unscored(tried) + _too_many([one for one in tried if one.is_right], len(tried))


def _too_many(paid: Sequence[Tried], num_tried: int) -> list[str]:
    """Those that were paid, where they are more than coincidences."""
    return [] if len(paid) <= max(1, COINCIDENCES * num_tried) else [str(one) for one in paid]


def _any_answer(groups: Sequence[Sequence[Trial]], tried: Sequence[Tried]) -> list[str]:
    by_trial = {id(one.trial): one for one in tried}
    return [
        str(by_trial[id(group[0])]) for group in groups if all(by_trial[id(trial)].is_right for trial in group)
    ] + _unscored(tried)


def _holes(tried: Sequence[Tried]) -> list[str]:
    """Replies that broke the verifier, or were paid for tasks with different gold."""
    paid: dict[str, list[Tried]] = {}
    for one in tried:
        if one.is_paid:
            paid.setdefault(one.trial.what, []).append(one)
    num_tasks = len({one.trial.task.id for one in tried})
    return _unscored(tried) + [str(ones[0]) for ones in paid.values() if len(ones) >= min(2, num_tasks)]


def _disagreeing(rounds: Sequence[Sequence[Tried]]) -> list[str]:
    columns = zip(*rounds, strict=True)
    return [str(column[0]) for column in columns if len({(one.verdict.kind, one.verdict.score) for one in column}) > 1]


def _proof(split: Split, claim: str, num_tried: int, against: Sequence[str]) -> Proof:
    return Proof(split=split, claim=claim, num_tried=num_tried, against=tuple(against))
