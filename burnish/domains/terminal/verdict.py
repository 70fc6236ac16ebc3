"""The verdict on a terminal episode: from what the agent changed alone, in a place that it never was in.

    outcome   what the task's check says of the start's tree with the agent's changes laid over it
    score     with process parts (`rewards/process.py`): most of what good habits are worth is paid with the outcome;
              without them: the outcome

Decisions: protected files are not taken from the agent. Of its `.git` only what is history is taken, and only where the
check asks for it: not its configuration and hooks, which could run code in the verifier's place. For tests a
fraction is the share of required tests that pass times the share of kept tests that still do, so that doing nothing is
worth 0. A check's script that says nothing (it does not end, or leaves no reward) is run on the start as
well: if it says nothing there either, that is the task's or the host's doing and an infrastructure error, else the
agent's and worth 0.
Covered: fixes judged by tests, files, scripts. Not covered: verdicts on what ran, not on what it left.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from burnish.core.types import Verdict
from burnish.data.harbor_reward import NO_REWARD
from burnish.domains import Judgement
from burnish.domains.terminal.grounds import Prepared
from burnish.domains.terminal.record import Record
from burnish.domains.terminal.spec import Check, CommandsCheck, EndStateCheck, TerminalTask, TestsCheck
from burnish.rewards import code_tests, end_state, process
from burnish.rewards.process import Event
from burnish.sandbox import Box, Outcome, ResourceLimits
from burnish.sandbox.place import Command, Workspace

LIMITS: Final = ResourceLimits(
    wall_s=300.0, cpu_s=30.0, memory_mb=768, disk_mb=96, num_files=16_384, num_processes=32, output_bytes=1 << 20
)
"""The wall is far off, for a busy host: what loops is ended by its processor time, what waits by its test's wall."""
SPARE_S: Final = 120.0
"""For what is no run of the agent's code: taking its changes out, and places to judge them in."""
SCRIPT: Final = "/tmp/check.sh"
"""Where a check lies: it may be longer than an argument of a program."""
WHOLE: Final = 'script=$(cat "$0"); rm -f "$0"; eval "$script"'
"""A script is read whole before any of it runs, since what it runs could write to its file."""
HISTORY: Final = (".git/HEAD", ".git/ORIG_HEAD", ".git/MERGE_HEAD", ".git/index", ".git/packed-refs", ".git/refs/",
                  ".git/objects/", ".git/logs/")  # fmt: skip
"""What of an agent's repository is history and state, and no code or setting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """What the agent left, against the start: by name, protected files left out."""

    changed: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    deleted: frozenset[str] = frozenset()
    refused: Mapping[str, str] = field(default_factory=dict[str, str])
    """Changed files that did not come out, and why."""
    executable: frozenset[str] = frozenset()
    """Of the changed ones."""
    history: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    """Its `.git`, as far as that is taken."""
    fault: str = ""
    """Why nothing could be taken, which is the agent's doing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Court:
    """Where a verdict is found: a box for tests, and the task's prepared place."""

    box: Box
    prepared: Prepared
    base_folder: Path | None


async def judge(task: TerminalTask, end: End, record: Record, court: Court, *, pays_process: bool) -> Judgement:
    """Judge an episode by its end and its events."""
    outcome = Verdict.scored(0.0, evidence=end.fault) if end.fault else await _outcome(task, end, court)
    if outcome.score is None:
        return Judgement(outcome, {})
    return weighed(task, outcome, record, pays_process=pays_process)


def weighed(task: TerminalTask, outcome: Verdict, record: Record, *, pays_process: bool) -> Judgement:
    """The score of an outcome that was reached in this way, its parts, and what each step earned."""
    assert outcome.score is not None
    parts = {**outcome.parts, **record.metrics(), "outcome": outcome.score, "solved": float(outcome.score == 1)}
    if outcome.score == 1:
        parts["steps_to_success"] = float(len(record.steps))
    lost = process.penalties(record.events)
    if task.fault is not None:
        judged = process.judge(record.events, task.fault, outcome.score)
        parts |= {f"process:{name}": value for name, value in judged.parts.items() if name != "outcome"}
        score, earned = judged.score, judged.earned
    else:
        parts["process:penalty"] = sum(lost.values())
        score = max(0.0, outcome.score - sum(lost.values()))
        earned = {step: -loss for step, loss in process.held_to(outcome.score, lost).items()}
    if not pays_process:
        score, earned = outcome.score, {}
    return Judgement(replace(outcome, score=score, parts=parts), earned)


def most_s(check: Check) -> float:
    """How long a verdict may take: longer than all that it runs may, or an agent whose code waits could bring about a
    timeout, which is nobody's fault and does not train, where it has failed."""
    match check:
        case TestsCheck():
            return LIMITS.wall_s + SPARE_S
        case CommandsCheck():
            return 2 * check.wall_s + SPARE_S
        case EndStateCheck():
            return SPARE_S


async def _outcome(task: TerminalTask, end: End, court: Court) -> Verdict:
    match task.check:
        case TestsCheck() as check:
            return await _by_tests(check, tree(task, end, court), court.box)
        case EndStateCheck() as check:
            names = {*(one.name for one in check.expected), *end.changed}
            files = {name: content for name, content in tree(task, end, court).items() if name in names}
            return end_state.judge(
                files, check.expected, is_all_or_nothing=check.is_all_or_nothing, allows_others=check.allows_others,
                refused=end.refused,
            )  # fmt: skip
        case CommandsCheck() as check:
            return await _by_script(check, end, court.prepared)


def tree(task: TerminalTask, end: End, court: Court) -> dict[str, bytes]:
    """The files that are judged: the base, the task's, the setup's, then the agent's changes."""
    files: dict[str, bytes] = {}
    if court.base_folder is not None:
        for path in sorted(court.base_folder.rglob("*")):
            if path.is_file() and not path.is_symlink():
                files[str(path.relative_to(court.base_folder))] = path.read_bytes()
    gone = set(task.removed) | end.deleted | set(end.refused)
    files |= {name: text.encode() for name, text in task.files.items()} | court.prepared.files | dict(end.changed)
    return {name: content for name, content in files.items() if name not in gone or name in end.changed}


async def _by_tests(check: TestsCheck, files: Mapping[str, bytes], box: Box) -> Verdict:
    suite = code_tests.TestSuite(
        tests=check.tests, ids=(*check.required, *check.kept), modules=check.modules, roots=check.roots,
        framework=check.framework, trust=check.trust, has_part_per_test=True,
        data={name: text.encode() for name, text in check.data.items()},
        test_cpu_s=check.test_cpu_s, test_wall_s=check.test_wall_s, limits=LIMITS,
    )  # fmt: skip
    verdict = await code_tests.verify(files, suite, box)
    if verdict.kind != "scored":
        return verdict
    required, kept = (_share(verdict.parts, names) for names in (check.required, check.kept))
    score = float(required * kept == 1) if check.is_all_or_nothing else required * kept
    parts = {name: value for name, value in verdict.parts.items() if not name.startswith("test ")}
    return replace(verdict, score=score, parts=parts | {"required": required, "kept": kept})


def _share(parts: Mapping[str, float], names: Sequence[str]) -> float:
    return sum(parts[f"test {name}"] for name in names) / len(names) if names else 1.0


async def _by_script(check: CommandsCheck, end: End, prepared: Prepared) -> Verdict:
    outcome = await _run_script(check, end, prepared)
    if _says_nothing(outcome) and _says_nothing(before := await _run_script(check, End(), prepared)):
        return Verdict.infrastructure_error(f"the check of the task says nothing of the start either: {_said(before)}")
    is_right = outcome.ending == "exited" and outcome.exit_code == 0
    return Verdict.scored(float(is_right), evidence=f"the check's script: {_said(outcome)}")


async def _run_script(check: CommandsCheck, end: End, prepared: Prepared) -> Outcome:
    """Run a check in a fork of the start that has the agent's changes."""
    place = await prepared.place.fork(prepared.start)
    try:
        await _lay_over(place, end, takes_history=check.includes_git)
        await place.write(SCRIPT, check.script.encode())
        return await place.run(Command(argv=("bash", "-c", WHOLE, SCRIPT), wall_s=check.wall_s))
    finally:
        await place.stop()


def _says_nothing(outcome: Outcome) -> bool:
    """Whether a check came to no end of its own, or left no reward."""
    return outcome.ending != "exited" or outcome.exit_code == NO_REWARD


def _said(outcome: Outcome) -> str:
    how = f"exit code {outcome.exit_code}" if outcome.ending == "exited" else outcome.ending
    return f"{how}; {(outcome.stdout + outcome.stderr)[-200:].decode(errors='replace')!a}"


async def _lay_over(place: Workspace, end: End, *, takes_history: bool) -> None:
    """Lay the agent's changes over the start's tree."""
    gone = [name for name in (*end.deleted, *end.refused) if not name.startswith(".git/")]
    if takes_history:
        gone += [name.rstrip("/") for name in HISTORY]
    if gone:
        await place.run(Command(argv=("rm", "-rf", "--", *gone)))
    files = {**end.changed, **(end.history if takes_history else {})}
    for name, content in files.items():
        await place.write(name, content)
    plain = [name for name in end.changed if name not in end.executable]
    for mode, names in (("a+x", sorted(end.executable)), ("a-x", plain)):
        if names:
            await place.run(Command(argv=("chmod", mode, "--", *names)))


def farm(task: TerminalTask, events: Sequence[Sequence[Event]], outcome: float) -> Judgement:
    """What an episode of these events would be paid; for tests of the reward itself."""
    record = Record(protected=task.protected)
    for step in events:
        record.end_step(step, succeeded=True)
    return weighed(task, Verdict.scored(outcome), record, pays_process=True)
