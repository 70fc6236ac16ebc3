"""A query judged by the rows that it gives, on the task's database and on others like it.

The gold query and the reply's run in two jobs, so that no reply ever meets gold; rows come back typed and are compared
here. A query that names its result as constants is right on the given database and wrong on the changed ones.

Decisions: SQLite alone, in memory, inside the sandbox, behind an authoriser (`sql_worker`). Rows are a bag unless
`is_ordered`; columns are compared in order whatever their names, or with `by_name` by name in any order; numbers by
value with a tolerance (`3` is `3.0`, `'3'` is not), NULL equals NULL. Score 1 if all databases agree, else 0.
A changed database on which gold fails, or gives rows that depend on the order in which rows are stored (a tie under
LIMIT, say), is dropped. With `is_ordered` the given database is asked once more with its rows stored backwards; and
where the order in which rows are stored changes the order of some of gold's (a tie under ORDER BY), those may come in
any order among each other.
Gold that fails on the given database makes the task unscorable. With `may_write` the reply is a script, and what the
`observe` queries give after it is compared.
Covered: tables from a script or CSV. Not covered: other dialects; what ties tables together, in changed databases
(foreign keys are not enforced, so that joins may find less).
"""

import json
import re
import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

from burnish.core.types import Json, Verdict
from burnish.rewards.code_value_answers import Answer, Tampered, read_answers
from burnish.rewards.thinking import after_thinking
from burnish.rewards.value_compare import Comparison, is_same
from burnish.sandbox import Box, Job, ResourceLimits

WORKER = Path(__file__).with_name("sql_worker.py").read_text(encoding="utf-8")
LIMITS = ResourceLimits(wall_s=30.0, cpu_s=4.0, memory_mb=256, num_processes=2, output_bytes=1 << 21)
LONGEST_QUERY = 100_000
NUM_ORDERS = 3
"""In how many orders the rows of a changed database are stored, to see whether gold depends on it."""
FENCED = re.compile(r"```[ \t]*+\w*+[ \t]*+\n(.*?)(?:^[ \t]*+```|\Z)", re.DOTALL | re.MULTILINE)

Database = tuple[int, int]
"""A seed, 0 for the given rows, and the order in which rows are stored, 0 for theirs."""
GIVEN: Database = (0, 0)
BACKWARDS: Database = (0, 1)
Ends = Sequence[int]


class BadGold(Exception):
    """The gold query does not run on its own database."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlTask:
    """A database, a gold query, and how rows are compared."""

    gold: str
    script: str = ""
    """SQL that makes and fills the tables."""
    csv: Mapping[str, str] = field(default_factory=dict[str, str])
    """More tables, by name: text with a header."""
    is_ordered: bool = False
    by_name: bool = False
    may_write: bool = False
    observe: tuple[str, ...] = ()
    """With `may_write`, the queries whose rows are the end state."""
    rel_tol: float = 1e-9
    abs_tol: float = 1e-9
    num_changed: int = 3
    seed: int = 1
    """From which the changed databases come; not known to the policy."""
    most_rows: int = 10_000
    most_steps: int = 20_000_000
    limits: ResourceLimits = LIMITS


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldRows:
    """What gold gives on each database."""

    tables: Mapping[Database, Json]
    ties: Mapping[Database, Sequence[Ends]] = field(default_factory=dict[Database, Sequence[Ends]])
    """Where rows tie on a database: for each table of the result, the ends of the blocks whose order is not chance."""


async def verify(task: SqlTask, query: str, box: Box, gold: GoldRows | None = None) -> Verdict:
    """Run a reply's query on all databases and compare; make `gold` once a task by `gold_rows`, for all its replies."""
    if not query.strip() or len(query) > LONGEST_QUERY:
        return nothing("no query in the reply")
    try:
        gold = gold or await gold_rows(task, box)
    except BadGold as error:
        return Verdict.unscorable(str(error))
    try:
        answers = await _run(task, query, list(gold.tables), box)
    except Tampered as error:
        return nothing(f"tampered: {error}")
    wrong = {
        database: _complaint(answers[database], rows, task, gold.ties.get(database))
        for database, rows in gold.tables.items()
    }
    changed = [not note for (seed, _), note in wrong.items() if seed]
    parts = {
        "ran": float(not any(answer is None or answer.error for answer in answers.values())),
        "on_given": float(not wrong[GIVEN]),
        "on_changed": sum(changed) / len(changed) if changed else 0.0,
        "num_changed": float(len(changed)),
        "special_cased": float(not wrong[GIVEN] and not all(changed)),
    }
    notes = [f"{'a changed' if seed else 'the given'} database: {note}" for (seed, _), note in wrong.items() if note]
    return Verdict.scored(float(not notes), parts, "; ".join(notes[:2]) or f"right on {len(wrong)} databases")


async def gold_rows(task: SqlTask, box: Box) -> GoldRows:
    """Run gold; `BadGold` if it fails on the given database."""
    seeds = [task.seed * 1000 + number for number in range(1, task.num_changed + 1)]
    databases = [GIVEN, BACKWARDS, *((seed, order) for seed in seeds for order in range(NUM_ORDERS))]
    try:
        answers = await _run(task, task.gold, databases, box)
    except Tampered as error:
        raise BadGold(f"sql: the worker broke off on the gold query: {error}") from None
    given, backwards = answers[GIVEN], answers[BACKWARDS]
    if given is None or given.error:
        raise BadGold(f"sql: the gold query fails on its own database: {given.error if given else 'no answer'}")
    tables, ties, as_bag = {GIVEN: given.value}, dict[Database, Sequence[Ends]](), replace(task, is_ordered=False)
    if task.is_ordered and backwards and not _complaint(backwards, given.value, as_bag):
        tables[BACKWARDS] = given.value
        if _complaint(backwards, given.value, task):
            ties[GIVEN] = ties[BACKWARDS] = _blocks([given.value, backwards.value], task)
    for seed in seeds:
        one, *others = (answers[seed, order] for order in range(NUM_ORDERS))
        if one and not one.error and not any(_complaint(other, one.value, as_bag) for other in others):
            tables[seed, 0] = one.value
            if any(_complaint(other, one.value, task) for other in others):
                ties[seed, 0] = _blocks([one.value, *(other.value for other in others if other)], task)
    return GoldRows(tables=tables, ties=ties)


def _blocks(values: Sequence[Json], task: SqlTask) -> Sequence[Ends]:
    """For each table of a result, the places up to which all orders of its rows have the same ones."""
    results = [value if isinstance(value, list) and task.may_write else [value] for value in values]
    return [_ends([_keys(table) for table in tables]) for tables in zip(*results, strict=True)]


def _keys(table: Json) -> list[str]:
    rows = table["rows"] if isinstance(table, dict) else []
    return [json.dumps(row, sort_keys=True) for row in rows] if isinstance(rows, list) else []


def _ends(orders: Sequence[Sequence[str]]) -> Ends:
    first, *others = orders
    surplus = [Counter[str]() for _ in others]
    ends: list[int] = []
    for place, key in enumerate(first):
        for counter, other in zip(surplus, others, strict=True):
            for word, change in ((key, 1), (other[place], -1)):
                counter[word] += change
                if not counter[word]:
                    del counter[word]
        if not any(surplus):
            ends.append(place + 1)
    return ends if ends and ends[-1] == len(first) else [*ends, len(first)]


def find_query(reply: str) -> str:
    """The first fenced block of a reply, or the reply itself, its thinking left out; empty if it is far too long."""
    said = after_thinking(reply)
    if said is None or len(said) > LONGEST_QUERY:
        return ""
    fenced = FENCED.search(said)
    return (fenced.group(1) if fenced else said).strip()


def nothing(evidence: str) -> Verdict:
    """The verdict on a reply without a query that ran."""
    parts = {"ran": 0.0, "on_given": 0.0, "on_changed": 0.0, "num_changed": 0.0, "special_cased": 0.0}
    return Verdict.scored(0.0, parts, evidence)


async def _run(task: SqlTask, query: str, databases: Sequence[Database], box: Box) -> Mapping[Database, Answer | None]:
    """One job over all databases; what each came to."""
    ids = {secrets.token_hex(8): database for database in databases}
    work = {
        "script": task.script,
        "csv": dict(task.csv),
        "query": query,
        "observe": task.observe,
        "may_write": task.may_write,
        "most_rows": task.most_rows,
        "most_steps": task.most_steps,
        "databases": [[call_id, *database] for call_id, database in ids.items()],
    }
    job = Job(source=WORKER, stdin=json.dumps(work).encode(), preload=("json", "sqlite3", "csv"), limits=task.limits)
    answers = read_answers(await box.run(job), ids)
    return {database: answers.get(call_id) for call_id, database in ids.items()}


def _complaint(answer: Answer | None, expected: Json, task: SqlTask, ties: Sequence[Ends] | None = None) -> str:
    """Why a result is not gold's; empty if it is."""
    if answer is None:
        return "no rows (stopped)"
    if answer.error:
        return answer.error[:100]
    tables, golds = (answer.value, expected) if task.may_write else ([answer.value], [expected])
    if not isinstance(tables, list) or not isinstance(golds, list) or len(tables) != len(golds):
        return "an answer of another form"
    blocks = ties or [None] * len(golds)
    complaints = (
        _table_complaint(table, rows, task, ends) for table, rows, ends in zip(tables, golds, blocks, strict=True)
    )
    return next(filter(None, complaints), "")


def _table_complaint(table: Json, gold: Json, task: SqlTask, ends: Ends | None = None) -> str:
    match table, gold:
        case {"columns": [*columns], "rows": [*rows]}, {"columns": [*gold_columns], "rows": [*gold_rows]}:
            pass
        case _:
            return "an answer of another form"
    if len(columns) != len(gold_columns):
        return f"{len(columns)} columns, expected {len(gold_columns)}"
    if task.by_name:
        names, gold_names = [str(name).lower() for name in columns], [str(name).lower() for name in gold_columns]
        if sorted(names) != sorted(gold_names) or len(set(names)) < len(names):
            return f"columns {names!r:.60}, expected {gold_names!r:.60}"
        places = [names.index(name) for name in gold_names]
        whole = [row for row in rows if isinstance(row, list) and len(row) == len(columns)]
        rows: list[Json] = [[row[place] for place in places] for row in whole]
    if len(rows) != len(gold_rows):
        return f"{len(rows)} rows, expected {len(gold_rows)}"
    comparison = Comparison(
        rule="exact" if task.is_ordered and ends is None else "unordered",
        rel_tol=task.rel_tol,
        abs_tol=task.abs_tol,
        is_typed=True,
        mixes_numbers=True,
    )
    blocks = pairwise((0, *(ends or (len(gold_rows),))))
    is_right = all(is_same(rows[first:end], gold_rows[first:end], comparison) for first, end in blocks)
    return "" if is_right else "other values"
