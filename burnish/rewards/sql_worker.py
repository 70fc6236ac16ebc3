"""The program that runs one query on several databases inside the sandbox and writes the rows of each.

It reads `{"script", "csv", "query", "observe", "may_write", "most_rows", "most_steps", "databases": [[id, seed,
order], ...]}` from stdin. Seed 0 is the database as given; another seed takes rows away, adds rows mixed from those
that are there, and shuffles all. Equal seeds give equal rows; `order` stores them otherwise: 1
backwards, 2 from the middle.
One line `{"id", "value": {"columns", "rows"}}` or `{"id", "error"}` each goes to the answer descriptor.

Decisions: the authoriser allows what a read needs and no more: no ATTACH, no PRAGMA, no extension, no transaction,
no change unless the task asks for one; lengths, steps and rows are bounded. Values keep SQLite's types: blobs and
infinities leave as `{"$": ...}`.
"""

import csv
import io
import json
import os
import random
import sqlite3
import sys
from typing import Any, TypedDict

READS = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE)
NEVER = (sqlite3.SQLITE_ATTACH, sqlite3.SQLITE_DETACH, sqlite3.SQLITE_PRAGMA, sqlite3.SQLITE_CREATE_VTABLE)
NO_FUNCTIONS = ("load_extension", "fts3_tokenizer", "readfile", "writefile", "edit")
STEPS_A_LOOK = 10_000
LONGEST_VALUE = 1_000_000


class Work(TypedDict):
    """What comes in; the docstring above says what each is."""

    script: str
    csv: dict[str, str]
    query: str
    observe: list[str]
    may_write: bool
    most_rows: int
    most_steps: int
    databases: list[tuple[str, int, int]]


def quoted(name: str) -> str:
    """A name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


def typed(column: list[str]) -> list[Any]:
    """A column of CSV as integers, floats or texts, whichever all of it is; empty is NULL."""
    for kind in (int, float):
        try:
            return [kind(text) if text else None for text in column]
        except ValueError:
            continue
    return [text or None for text in column]


def add_csv(database: sqlite3.Connection, name: str, text: str) -> None:
    """Make a table of a CSV text with a header."""
    header, *rows = list(csv.reader(io.StringIO(text)))
    columns = [typed(list(column)) for column in zip(*rows, strict=True)] or [[] for _ in header]
    database.execute(f"CREATE TABLE {quoted(name)} ({', '.join(map(quoted, header))})")
    insert(database, name, list(zip(*columns, strict=True)))


def insert(database: sqlite3.Connection, name: str, rows: list[tuple[Any, ...]]) -> None:
    """Add rows; those that a constraint forbids are left out."""
    if rows:
        places = ", ".join("?" * len(rows[0]))
        database.executemany(f"INSERT OR IGNORE INTO {quoted(name)} VALUES ({places})", rows)


def change(database: sqlite3.Connection, seed: int, order: int) -> None:
    """Take some rows of each table away, add some, shuffle all; for another `order`, store what there is otherwise."""
    names = [row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
    for name in names:
        if name.startswith("sqlite_"):
            continue
        rng = random.Random(f"{seed} {name}")
        rows = database.execute(f"SELECT * FROM {quoted(name)}").fetchall()
        if seed and rows:
            new = [
                tuple(fresh(rng, [row[i] for row in rows]) for i in range(len(rows[0]))) for _ in range(len(rows) + 2)
            ]
            rows = [row for row in rows if rng.random() < 0.8] + new
            rng.shuffle(rows)
        half = len(rows) // 2
        rows = (rows, rows[::-1], rows[half:] + rows[:half])[order]
        database.execute(f"DELETE FROM {quoted(name)}")
        insert(database, name, rows)


def fresh(rng: random.Random, column: list[Any]) -> Any:
    """A value like those of a column: mostly one of them, sometimes a number next to one."""
    value = rng.choice(column)
    if isinstance(value, (int, float)) and rng.random() < 0.4:
        return value + rng.randint(1, 9)
    return value


def build(work: Work, seed: int, order: int) -> sqlite3.Connection:
    """The database, before any untrusted word."""
    database = sqlite3.connect(":memory:", isolation_level=None)
    database.text_factory = lambda text: text.decode("utf-8", "surrogateescape")
    if work["script"]:
        database.executescript(work["script"])
    for name, text in work["csv"].items():
        add_csv(database, name, text)
    if seed or order:
        change(database, seed, order)
    return database


def guard(database: sqlite3.Connection, work: Work) -> None:
    """From here on only what the task allows."""

    def authorise(action: int, first: str | None, second: str | None, *where: str | None) -> int:
        if action in NEVER or (action == sqlite3.SQLITE_FUNCTION and str(second).lower() in NO_FUNCTIONS):
            return sqlite3.SQLITE_DENY
        return sqlite3.SQLITE_OK if work["may_write"] or action in READS else sqlite3.SQLITE_DENY

    num_left = work["most_steps"] // STEPS_A_LOOK

    def is_enough() -> int:
        nonlocal num_left
        num_left -= 1
        return int(num_left <= 0)

    for limit, value in (
        (sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_VALUE),
        (sqlite3.SQLITE_LIMIT_SQL_LENGTH, 100_000),
        (sqlite3.SQLITE_LIMIT_ATTACHED, 0),
        (sqlite3.SQLITE_LIMIT_EXPR_DEPTH, 200),
        (sqlite3.SQLITE_LIMIT_COMPOUND_SELECT, 100),
    ):
        database.setlimit(limit, value)
    database.set_progress_handler(is_enough, STEPS_A_LOOK)
    database.set_authorizer(authorise)


def table(database: sqlite3.Connection, query: str, most_rows: int) -> dict[str, Any]:
    """Run one query; its column names and its rows."""
    cursor = database.execute(query)
    if cursor.description is None:
        raise sqlite3.ProgrammingError("the statement gives no rows")
    rows = cursor.fetchmany(most_rows + 1)
    if len(rows) > most_rows:
        raise sqlite3.DataError(f"more than {most_rows} rows")
    return {"columns": [column[0] for column in cursor.description], "rows": [[form(v) for v in row] for row in rows]}


def form(value: Any) -> Any:
    """A value as JSON writes it."""
    if isinstance(value, bytes):
        return {"$": "bytes", "hex": value.hex()}
    if isinstance(value, float) and not abs(value) < float("inf"):
        return {"$": "float", "text": repr(value)}
    return value


def run(work: Work, seed: int, order: int) -> Any:
    """The query's result on one database, or what the database holds after it."""
    database = build(work, seed, order)
    guard(database, work)
    if not work["may_write"]:
        return table(database, work["query"], work["most_rows"])
    database.executescript(work["query"])
    return [table(database, query, work["most_rows"]) for query in work["observe"]]


def main() -> None:
    """Answer for each database."""
    work: Work = json.load(sys.stdin)
    with os.fdopen(int(os.environ["BURNISH_ANSWER_FD"]), "w", encoding="utf-8") as answers:
        for call_id, seed, order in work["databases"]:
            try:
                line = json.dumps({"id": call_id, "value": run(work, seed, order)}, allow_nan=False)
            except (sqlite3.Error, sqlite3.Warning, MemoryError, OverflowError, ValueError) as error:
                line = json.dumps({"id": call_id, "error": f"{type(error).__name__}: {error}"[:200]})
            answers.write(line + "\n")
            answers.flush()


if __name__ == "__main__":
    main()
