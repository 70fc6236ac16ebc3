"""The ledger: what became of each prompt, exactly once, across crashes.

SQLite in WAL mode; each method is one transaction. A group (one prompt, several samples) goes
`issued` → `ready` (all members verified) → `trained` or `dropped`. Finished rollouts are kept as JSON until a
checkpoint contains what they taught; then they move to a Parquet file and leave the table.
Evaluation results and stage results are kept for good.

The course of a stage, what its steps showed and what was decided of its domains, is kept for good too: one row a step
and kind, the first stays. Replies of a gate's evaluation are kept by the step that the gate came after. Table `spent`
says how many interactions each step took, and what its groups showed that later draws are aimed by.

In asynchronous mode a group's step is `PENDING` until a step consumes it, and what happened in which order is kept as
events (`append_events`), for good: a run can be repeated from them.

Decision: what is trained is decided by checkpoints. A step that no checkpoint contains is repeated
after a crash from the kept rollouts, not sampled anew.
"""

import json
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from burnish.core.errors import RunFolderError
from burnish.core.types import Json, Trajectory

_SCHEMA = """
CREATE TABLE IF NOT EXISTS stages (position INTEGER PRIMARY KEY, name TEXT NOT NULL, result TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS groups (
    id TEXT PRIMARY KEY, stage INTEGER NOT NULL, step INTEGER NOT NULL,
    task_id TEXT NOT NULL, prompt_hash TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('issued', 'ready', 'trained', 'dropped'))
);
CREATE INDEX IF NOT EXISTS groups_by_stage ON groups (stage, step);
CREATE TABLE IF NOT EXISTS rollouts (
    group_id TEXT NOT NULL REFERENCES groups, member INTEGER NOT NULL, payload TEXT NOT NULL,
    PRIMARY KEY (group_id, member)
);
CREATE TABLE IF NOT EXISTS evals (
    stage INTEGER NOT NULL, task_id TEXT NOT NULL, payload TEXT NOT NULL, PRIMARY KEY (stage, task_id)
);
CREATE TABLE IF NOT EXISTS events (
    stage INTEGER NOT NULL, number INTEGER NOT NULL, tick INTEGER NOT NULL, payload TEXT NOT NULL,
    PRIMARY KEY (stage, number)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS course (
    number INTEGER PRIMARY KEY, stage INTEGER NOT NULL, step INTEGER NOT NULL, kind TEXT NOT NULL,
    payload TEXT NOT NULL, UNIQUE (stage, step, kind)
);
CREATE TABLE IF NOT EXISTS guarded (
    stage INTEGER NOT NULL, step INTEGER NOT NULL, suite TEXT NOT NULL, task_id TEXT NOT NULL, payload TEXT NOT NULL,
    PRIMARY KEY (stage, step, suite, task_id)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS spent (
    stage INTEGER NOT NULL, step INTEGER NOT NULL, interactions INTEGER NOT NULL, first_draw INTEGER NOT NULL,
    shown TEXT NOT NULL, PRIMARY KEY (stage, step)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS scores (
    stage INTEGER NOT NULL, prompt_hash TEXT NOT NULL, step INTEGER NOT NULL, scores TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS scores_by_prompt ON scores (stage, prompt_hash);
CREATE TABLE IF NOT EXISTS sessions (started REAL PRIMARY KEY, last_seen REAL NOT NULL, peak_rss_mb REAL NOT NULL);
"""


PENDING = 1 << 40
"""As a group's step: none has consumed it yet."""


class Events(NamedTuple):
    """What happened at an engine step, in order; what the entries mean is the business of who wrote them."""

    tick: int
    payload: list[Json]


class Issued(NamedTuple):
    """What was noted of a group when it was issued."""

    task_id: str
    prompt_hash: str


class CourseRow(NamedTuple):
    """What was noted of a stage's course before step `step` was taken."""

    step: int
    kind: str
    payload: Any


class Spent(NamedTuple):
    """What a step has cost, and what it has shown to the draws from `first_draw` on."""

    step: int
    interactions: int
    first_draw: int
    shown: Any = ()


class PastScores(NamedTuple):
    """What members of a prompt's earlier groups scored, newest group first, and the step that had the newest."""

    step: int
    scores: tuple[float, ...]


class GroupCounts(NamedTuple):
    """How many groups of a stage are in which state."""

    issued: int
    ready: int
    trained: int
    dropped: int


class Ledger:
    """One run's ledger. Used from one thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._db = sqlite3.connect(path, isolation_level=None, timeout=30)
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = NORMAL")
            self._db.executescript(_SCHEMA)
        except sqlite3.Error as error:
            raise RunFolderError(f"cannot open the ledger {str(path)!r}: {error}") from None
        self._session = time.time()

    def to_disk(self) -> None:
        """Have all that was written so far survive a power cut; a kill, it survives anyway."""
        self._rows("PRAGMA wal_checkpoint(FULL)")

    def close(self) -> None:
        """Write everything out; safe to call twice."""
        self._db.close()

    @contextmanager
    def together(self) -> Iterator[None]:
        """What is written within the block is there at once or not at all."""
        with self._transaction():
            yield

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        if self._db.in_transaction:
            yield self._db
            return
        try:
            self._db.execute("BEGIN IMMEDIATE")
            yield self._db
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            self._roll_back()
            raise RunFolderError(
                f"cannot write the ledger {str(self._path)!r}: {error}; free disk space, then go on by --resume"
            ) from None
        except BaseException:
            self._roll_back()
            raise

    def _roll_back(self) -> None:
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")

    def _rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        try:
            return self._db.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise RunFolderError(
                f"cannot read the ledger {str(self._path)!r}: {error}; if it is damaged, start again under another name"
            ) from None

    def issue(self, stage: int, step: int, group_id: str, task_id: str, prompt_hash: str) -> None:
        """Account for a prompt before it is sampled; issuing the same group again changes nothing."""
        with self._transaction() as db:
            db.execute(
                "INSERT OR IGNORE INTO groups VALUES (?, ?, ?, ?, ?, 'issued')",
                (group_id, stage, step, task_id, prompt_hash),
            )

    def num_groups_before(self, stage: int, step: int) -> int:
        """How many groups the steps before `step` have issued."""
        return int(self._rows("SELECT COUNT(*) FROM groups WHERE stage = ? AND step < ?", stage, step)[0][0])

    def record(self, trajectory: Trajectory) -> None:
        """Keep a finished (sampled and verified) rollout. The first record of a member stays."""
        with self._transaction() as db:
            db.execute(
                "INSERT OR IGNORE INTO rollouts VALUES (?, ?, ?)",
                (trajectory.group_id, trajectory.member, trajectory.to_json()),
            )

    def replace(self, trajectory: Trajectory) -> None:
        """Keep a rollout in the place of what was kept of this member: its verdict has come, or it is a new attempt."""
        with self._transaction() as db:
            db.execute(
                "INSERT OR REPLACE INTO rollouts VALUES (?, ?, ?)",
                (trajectory.group_id, trajectory.member, trajectory.to_json()),
            )

    def forget(self, group_id: str) -> None:
        """Let go of what was kept of a group, which is sampled anew."""
        with self._transaction() as db:
            db.execute("DELETE FROM rollouts WHERE group_id = ?", (group_id,))

    def rollouts(self, group_id: str) -> list[Trajectory]:
        """The finished members of a group, in order."""
        rows = self._rows("SELECT payload FROM rollouts WHERE group_id = ? ORDER BY member", group_id)
        return [Trajectory.from_json(payload) for (payload,) in rows]

    def rollouts_up_to(self, stage: int, step: int) -> list[Trajectory]:
        """All judged rollouts of a stage that are still kept, up to and with a step."""
        rows = self._rows(
            "SELECT payload FROM rollouts JOIN groups ON id = group_id "
            "WHERE stage = ? AND step <= ? ORDER BY step, group_id, member",
            stage, step,
        )  # fmt: skip
        return [rollout for (payload,) in rows if (rollout := Trajectory.from_json(payload)).verdict is not None]

    def mark_ready(self, group_ids: Iterable[str]) -> None:
        """All members of these groups are verified."""
        with self._transaction() as db:
            db.executemany(
                "UPDATE groups SET state = 'ready' WHERE id = ? AND state = 'issued'", [(g,) for g in group_ids]
            )

    def mark_dropped(self, group_ids: Iterable[str]) -> None:
        """These groups carry no signal and will not train."""
        with self._transaction() as db:
            db.executemany("UPDATE groups SET state = 'dropped' WHERE id = ?", [(g,) for g in group_ids])

    def consume(self, step: int, *, ready: Iterable[str] = (), dropped: Iterable[str] = ()) -> None:
        """A step takes these pending groups: it trains on the ready ones and on none of the dropped ones."""
        ended = [(step, "ready", group_id) for group_id in ready] + [
            (step, "dropped", group_id) for group_id in dropped
        ]
        with self._transaction() as db:
            db.executemany("UPDATE groups SET step = ?, state = ? WHERE id = ? AND state = 'issued'", ended)

    def pending(self, stage: int) -> list[str]:
        """The groups of a stage that were issued and that no step has consumed, in order of their ids."""
        rows = self._rows("SELECT id FROM groups WHERE stage = ? AND step = ? ORDER BY id", stage, PENDING)
        return [group_id for (group_id,) in rows]

    def dropped_in(self, stage: int, step: int) -> list[str]:
        """The groups that a step let go of, in order."""
        return [
            group_id
            for (group_id,) in self._rows(
                "SELECT id FROM groups WHERE stage = ? AND step = ? AND state = 'dropped' ORDER BY id", stage, step
            )
        ]

    def issued(self, stage: int) -> dict[str, Issued]:
        """All groups of a stage that were ever issued, in order of their ids."""
        rows = self._rows("SELECT id, task_id, prompt_hash FROM groups WHERE stage = ? ORDER BY id", stage)
        return {group_id: Issued(task_id, prompt_hash) for group_id, task_id, prompt_hash in rows}

    def trained_prompts(self) -> list[str]:
        """The hashes of all prompts that trained, or may have since the last checkpoint, each once."""
        rows = self._rows("SELECT DISTINCT prompt_hash FROM groups WHERE state IN ('ready', 'trained')")
        return [prompt_hash for (prompt_hash,) in rows]

    def note_scores(self, stage: int, prompt_hash: str, step: int, scores: Sequence[float]) -> None:
        """Keep what the members of a group have scored, for good: it says what more of this prompt would teach."""
        with self._transaction() as db:
            db.execute("INSERT INTO scores VALUES (?, ?, ?, ?)", (stage, prompt_hash, step, json.dumps([*scores])))

    def past_scores(self, stage: int, prompt_hash: str, *, most_groups: int = 4) -> PastScores | None:
        """What the newest groups of a prompt have scored; None if there was none."""
        rows = self._rows(
            "SELECT step, scores FROM scores WHERE stage = ? AND prompt_hash = ? ORDER BY rowid DESC LIMIT ?",
            stage, prompt_hash, most_groups,
        )  # fmt: skip
        if not rows:
            return None
        return PastScores(rows[0][0], tuple(score for _, scores in rows for score in json.loads(scores)))

    def append_events(self, stage: int, tick: int, payload: list[Json]) -> None:
        """Note what happened at an engine step of a stage."""
        with self._transaction() as db:
            db.execute(
                "INSERT INTO events SELECT ?, COALESCE(MAX(number), -1) + 1, ?, ? FROM events WHERE stage = ?",
                (stage, tick, json.dumps(payload, separators=(",", ":")), stage),
            )

    def events(self, stage: int) -> list[Events]:
        """All that was noted of a stage, in order."""
        rows = self._rows("SELECT tick, payload FROM events WHERE stage = ? ORDER BY number", stage)
        return [Events(tick, json.loads(payload)) for tick, payload in rows]

    def num_draws(self, stage: int) -> int:
        """The number of a stage's first draw that was never issued."""
        newest = self._rows("SELECT MAX(id) FROM groups WHERE id > ? AND id < ?", f"{stage}/", f"{stage}0")[0][0]
        return 0 if newest is None else int(str(newest).split("/")[1]) + 1

    def note_course(self, stage: int, step: int, kind: str, payload: Json) -> None:
        """Note something of the stage's course; what was noted of that kind and step before stays."""
        with self._transaction() as db:
            db.execute(
                "INSERT OR IGNORE INTO course (stage, step, kind, payload) VALUES (?, ?, ?, ?)",
                (stage, step, kind, json.dumps(payload, separators=(",", ":"))),
            )

    def course(self, stage: int) -> list[CourseRow]:
        """All that was noted of a stage's course, in order."""
        rows = self._rows("SELECT step, kind, payload FROM course WHERE stage = ? ORDER BY number", stage)
        return [CourseRow(step, kind, json.loads(payload)) for step, kind, payload in rows]

    def note_spent(self, stage: int, spent: Spent) -> None:
        """Note what a step has cost and shown; what was noted of that step before stays."""
        with self._transaction() as db:
            shown = json.dumps(spent.shown, separators=(",", ":"))
            db.execute(
                "INSERT OR IGNORE INTO spent VALUES (?, ?, ?, ?, ?)",
                (stage, spent.step, spent.interactions, spent.first_draw, shown),
            )

    def spent(self, stage: int) -> list[Spent]:
        """What each step of a stage has cost and shown, in order."""
        rows = self._rows(
            "SELECT step, interactions, first_draw, shown FROM spent WHERE stage = ? ORDER BY step", stage
        )
        return [Spent(step, taken, first_draw, json.loads(shown)) for step, taken, first_draw, shown in rows]

    def record_guarded(self, stage: int, step: int, suite: str, payloads: Sequence[tuple[str, Json]]) -> None:
        """Keep a gate's results on a suite, given as (task id, result)."""
        rows = [(stage, step, suite, task_id, json.dumps(payload)) for task_id, payload in payloads]
        with self._transaction() as db:
            db.executemany("INSERT OR IGNORE INTO guarded VALUES (?, ?, ?, ?, ?)", rows)

    def guarded(self, stage: int, step: int, suite: str) -> dict[str, Any]:
        """A gate's results on a suite, by task id."""
        rows = self._rows(
            "SELECT task_id, payload FROM guarded WHERE stage = ? AND step = ? AND suite = ?", stage, step, suite
        )
        return {task_id: json.loads(text) for task_id, text in rows}

    def commit_steps(self, stage: int, step: int) -> None:
        """A checkpoint and a Parquet file contain everything up to `step`: settle those groups."""
        with self._transaction() as db:
            db.execute(
                "UPDATE groups SET state = 'trained' WHERE stage = ? AND step <= ? AND state = 'ready'", (stage, step)
            )
            db.execute(
                "DELETE FROM rollouts WHERE group_id IN (SELECT id FROM groups WHERE stage = ? AND step <= ?)",
                (stage, step),
            )

    def group_counts(self, stage: int) -> GroupCounts:
        """Count the groups of a stage by state."""
        counts = dict(self._rows("SELECT state, COUNT(*) FROM groups WHERE stage = ? GROUP BY state", stage))
        return GroupCounts(*(counts.get(state, 0) for state in GroupCounts._fields))

    def record_evals(self, stage: int, payloads: Sequence[tuple[str, Json]]) -> None:
        """Keep evaluation results, given as (task id, result)."""
        rows = [(stage, task_id, json.dumps(payload)) for task_id, payload in payloads]
        with self._transaction() as db:
            db.executemany("INSERT OR IGNORE INTO evals VALUES (?, ?, ?)", rows)

    def evals(self, stage: int) -> dict[str, Any]:
        """The kept evaluation results of a stage, by task id."""
        return {
            task_id: json.loads(text)
            for task_id, text in self._rows("SELECT task_id, payload FROM evals WHERE stage = ?", stage)
        }

    def finish_stage(self, position: int, name: str, result: Json) -> None:
        """The stage at this position of the recipe is done."""
        with self._transaction() as db:
            db.execute("INSERT OR REPLACE INTO stages VALUES (?, ?, ?)", (position, name, json.dumps(result)))

    def stage_result(self, position: int) -> Any | None:
        """What a finished stage left; None if it is not finished."""
        rows = self._rows("SELECT result FROM stages WHERE position = ?", position)
        return json.loads(rows[0][0]) if rows else None

    def heartbeat(self, peak_rss_mb: float) -> None:
        """Note that this session is alive, for the run's wall time over all sessions."""
        with self._transaction() as db:
            db.execute(
                "INSERT INTO sessions VALUES (?, ?, ?) ON CONFLICT (started) DO UPDATE "
                "SET last_seen = excluded.last_seen, peak_rss_mb = MAX(peak_rss_mb, excluded.peak_rss_mb)",
                (self._session, time.time(), peak_rss_mb),
            )

    def wall_s(self) -> float:
        """Seconds over all sessions of the run."""
        return float(self._rows("SELECT COALESCE(SUM(last_seen - started), 0) FROM sessions")[0][0])

    def last_seen(self) -> float:
        """When a session of the run last gave a sign of life, in seconds since 1970; 0 if none ever did."""
        return float(self._rows("SELECT COALESCE(MAX(last_seen), 0) FROM sessions")[0][0])

    def peak_rss_mb(self) -> float:
        """The largest memory of any session."""
        return float(self._rows("SELECT COALESCE(MAX(peak_rss_mb), 0) FROM sessions")[0][0])
