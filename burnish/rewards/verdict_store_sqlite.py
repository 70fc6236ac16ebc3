"""Verdicts in one SQLite file: one host, many processes.

Decisions: WAL, so that readers never wait for a writer; each `put` is one transaction, so that SIGKILL at any moment
leaves whole rows. Reading and writing have a connection each, since the verification module writes from another
thread. A file that is no database, or a damaged one, is set aside with a warning, and a new one is begun.
The file is bounded by `most_entries`: beyond it the tenth that was used longest ago goes. Use is noted in memory and
written with the next `put`; a crash forgets the newest notes, which only costs a little of the order.
Not covered: files on network file systems (SQLite's locks do not hold there; use Redis).
"""

import fcntl
import sqlite3
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from burnish.core.errors import ConfigError
from burnish.rewards.verdict_cache import Row, StoreError

VERSION = 1
BUSY_S = 20.0
PUTS_BETWEEN_COUNTS = 200
MOST_NOTES = 10_000

_SCHEMA = """
CREATE TABLE IF NOT EXISTS verdicts (
    key TEXT PRIMARY KEY, task TEXT NOT NULL, domain TEXT NOT NULL, content BLOB NOT NULL, used REAL NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS verdicts_by_task ON verdicts (task);
CREATE INDEX IF NOT EXISTS verdicts_by_domain ON verdicts (domain);
CREATE INDEX IF NOT EXISTS verdicts_by_use ON verdicts (used);
CREATE TABLE IF NOT EXISTS flags (owner TEXT PRIMARY KEY) WITHOUT ROWID;
"""


class SqliteStore:
    """See `Store`."""

    is_quick = True

    def __init__(self, path: Path, most_entries: int) -> None:
        self._path, self._most_entries = path, most_entries
        self._reading, self._writing = _open(path)
        self._lock = threading.Lock()
        self._notes: dict[str, float] = {}
        self._num_puts = 0
        self._is_closed = False

    def get(self, key: str) -> bytes | None:
        """See `Store`."""
        found = self._read("SELECT content FROM verdicts WHERE key = ?", key)
        if found is None or not isinstance(found[0], bytes):
            return None
        if len(self._notes) < MOST_NOTES:
            self._notes[key] = time.time()
        return found[0]

    def put(self, rows: list[Row]) -> None:
        """See `Store`."""
        now = time.time()
        with self._transaction() as db:
            notes, self._notes = self._notes, {}
            db.executemany("UPDATE verdicts SET used = ? WHERE key = ?", [(when, key) for key, when in notes.items()])
            db.executemany(
                "INSERT OR REPLACE INTO verdicts SELECT ?, ?, ?, ?, ?"
                " WHERE NOT EXISTS (SELECT 1 FROM flags WHERE owner IN (?, ?))",
                [(row.key, row.task, row.domain, row.content, now, row.task, row.domain) for row in rows],
            )
            if self._num_puts % PUTS_BETWEEN_COUNTS == 0:
                self._evict(db)
            self._num_puts += 1

    def drop(self, owner: str) -> None:
        """See `Store`."""
        with self._transaction() as db:
            db.execute("INSERT OR IGNORE INTO flags VALUES (?)", (owner,))
            db.execute("DELETE FROM verdicts WHERE task = ? OR domain = ?", (owner, owner))

    def close(self) -> None:
        """See `Store`; waits for a `put` that is under way."""
        with self._lock:
            self._is_closed = True
            self._reading.close()
            self._writing.close()

    def _evict(self, db: sqlite3.Connection) -> None:
        (num,) = db.execute("SELECT COUNT(*) FROM verdicts").fetchone()
        if num > self._most_entries:
            num_too_many = num - self._most_entries + self._most_entries // 10
            db.execute(
                "DELETE FROM verdicts WHERE key IN (SELECT key FROM verdicts ORDER BY used LIMIT ?)", (num_too_many,)
            )

    def _read(self, query: str, value: str) -> tuple[Any, ...] | None:
        try:
            return self._reading.execute(query, (value,)).fetchone()
        except sqlite3.Error as error:
            raise StoreError(f"cannot read {str(self._path)!r}: {error}") from None

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            db = self._writing
            if self._is_closed:
                raise StoreError(f"{str(self._path)!r} is closed")
            try:
                db.execute("BEGIN IMMEDIATE")
                yield db
                db.execute("COMMIT")
            except sqlite3.Error as error:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise StoreError(f"cannot write {str(self._path)!r}: {error}") from None


def _open(path: Path) -> tuple[sqlite3.Connection, sqlite3.Connection]:
    """Open both connections; one process at a time, so that a damaged file is set aside once."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.with_name(f"{path.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            try:
                _prepare(path)
            except sqlite3.DatabaseError as error:
                if isinstance(error, sqlite3.OperationalError):
                    raise ConfigError(f"cannot open the verdict cache {str(path)!r}: {error}") from None
                _set_aside(path, error)
                _prepare(path)
    except OSError as error:
        raise ConfigError(
            f"cannot open the verdict cache {str(path)!r}: {error.strerror}; choose another place"
        ) from None
    return _connect(path), _connect(path)


def _connect(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, isolation_level=None, timeout=BUSY_S, check_same_thread=False)
    db.execute("PRAGMA synchronous = NORMAL")
    return db


def _prepare(path: Path) -> None:
    db = _connect(path)
    try:
        db.execute("PRAGMA journal_mode = WAL")
        (version,) = db.execute("PRAGMA user_version").fetchone()
        if version not in (0, VERSION):
            raise sqlite3.DatabaseError(f"written in form {version}, expected {VERSION}")
        db.executescript(_SCHEMA)
        db.execute(f"PRAGMA user_version = {VERSION}")
        (answer,) = db.execute("PRAGMA quick_check(1)").fetchone()
        if answer != "ok":
            raise sqlite3.DatabaseError(str(answer))
    finally:
        db.close()


def _set_aside(path: Path, error: Exception) -> None:
    kept = path.with_name(f"{path.name}.damaged-{time.time_ns()}")
    path.rename(kept)
    for ending in ("-wal", "-shm"):
        path.with_name(path.name + ending).unlink(missing_ok=True)
    warnings.warn(
        f"verdict cache {str(path)!r} is damaged ({error}): set aside as {kept.name!r}, and begun anew",
        RuntimeWarning, stacklevel=4,
    )  # fmt: skip
