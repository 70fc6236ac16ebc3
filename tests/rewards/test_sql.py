"""Queries judged by the rows that they give."""

import asyncio
from dataclasses import replace

import pytest

from burnish.rewards.sql import SqlTask, find_query, gold_rows, verify
from burnish.sandbox import Outcome

SCRIPT = """
CREATE TABLE staff (name TEXT, team TEXT, pay REAL, note TEXT);
INSERT INTO staff VALUES ('ann', 'red', 10, NULL), ('bo', 'red', 12.5, 'x'), ('cy', 'blue', 7, NULL),
 ('di', 'blue', 9, 'y'), ('ed', 'green', 30, 'x');
"""
TASK = SqlTask(script=SCRIPT, gold="SELECT team, SUM(pay) FROM staff GROUP BY team")
RIGHT = "SELECT team, TOTAL(pay) AS t FROM staff GROUP BY 1 ORDER BY 2"


@pytest.fixture(scope="module")
def gold(runner, box):
    return runner.run(gold_rows(TASK, box))


def test_changed_databases_differ_from_the_given_one_and_each_other(gold) -> None:
    assert len(gold.tables) >= 3 and (0, 0) in gold.tables
    assert len({str(table) for table in gold.tables.values()}) == len(gold.tables)


@pytest.mark.parametrize(
    ("query", "score"),
    [
        (RIGHT, 1.0),
        (TASK.gold + ";", 1.0),
        (TASK.gold + " -- by team", 1.0),
        ("SELECT team, MAX(pay) FROM staff GROUP BY team", 0.0),
        ("SELECT SUM(pay), team FROM staff GROUP BY team", 0.0),
        ("SELECT team FROM staff", 0.0),
        ("SELECT team, CAST(SUM(pay) AS TEXT) FROM staff GROUP BY team", 0.0),
        ("SELECT 'red', 22.5 UNION SELECT 'blue', 16 UNION SELECT 'green', 30", 0.0),
        ("SELECT team, SUM(pay) FROM staff GROUP BY team UNION ALL SELECT 'red', 22.5", 0.0),
        ("SELEC", 0.0),
        ("", 0.0),
        ("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i, i FROM n", 0.0),
        ("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT 'red', COUNT(*) FROM n", 0.0),
        ("SELECT hex(zeroblob(2000000000)), 1", 0.0),
    ],
)
def test_a_query_is_right_if_it_gives_golds_rows_on_every_database(query, score, runner, box, gold) -> None:
    verdict = runner.run(verify(TASK, query, box, gold))
    assert (verdict.kind, verdict.score) == ("scored", score)


def test_constants_are_found_out(runner, box, gold) -> None:
    constants = "SELECT 'red', 22.5 UNION SELECT 'blue', 16 UNION SELECT 'green', 30"
    verdict = runner.run(verify(TASK, constants, box, gold))
    assert (verdict.parts["on_given"], verdict.parts["special_cased"], verdict.parts["on_changed"]) == (1, 1, 0)


@pytest.mark.parametrize(
    "query",
    [
        "ATTACH 'x.db' AS x",
        "PRAGMA writable_schema = ON",
        "SELECT load_extension('x'), 1",
        "DELETE FROM staff RETURNING team, pay",
        "CREATE TABLE t (a)",
        "DROP TABLE staff",
        "BEGIN",
        "VACUUM INTO 'copy.db'",
        TASK.gold + "; DROP TABLE staff",
    ],
)
def test_what_a_read_does_not_need_is_denied(query, runner, box) -> None:
    task = replace(TASK, num_changed=0)
    verdict = runner.run(verify(task, query, box))
    assert (verdict.score, verdict.parts["ran"]) == (0, 0)


def test_order_counts_where_the_task_says_so(runner, box) -> None:
    task = replace(TASK, gold="SELECT name FROM staff ORDER BY pay", is_ordered=True, num_changed=0)
    assert runner.run(verify(task, "SELECT name FROM staff ORDER BY pay, name", box)).score == 1
    assert runner.run(verify(task, "SELECT name FROM staff ORDER BY name", box)).score == 0


def test_constants_in_the_right_order_are_found_out_though_rows_tie(runner, box) -> None:
    script = "CREATE TABLE t (id INTEGER, name TEXT); INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd');"
    task = SqlTask(script=script, gold="SELECT name FROM t ORDER BY id", is_ordered=True)
    constants = "SELECT 'a' UNION ALL SELECT 'b' UNION ALL SELECT 'c' UNION ALL SELECT 'd'"
    queries = {task.gold: 1, constants: 0, "SELECT name FROM t ORDER BY id DESC": 0, "SELECT name FROM t": 0}
    assert {query: runner.run(verify(task, query, box)).score for query in queries} == queries


def test_rows_that_tie_may_come_in_any_order_and_no_others(runner, box) -> None:
    script = "CREATE TABLE t (id INTEGER, pay INTEGER);"
    script += "".join(f"INSERT INTO t VALUES ({n}, {n // 3});" for n in range(9))
    task = SqlTask(script=script, gold="SELECT id FROM t ORDER BY pay", is_ordered=True)
    queries = {
        "SELECT id FROM t ORDER BY pay, id DESC": 1,
        "SELECT id FROM t ORDER BY pay, id": 1,
        "SELECT id FROM t ORDER BY id": 0,
        "SELECT id FROM t ORDER BY pay DESC": 0,
        "SELECT id FROM t ORDER BY pay = 1, pay, id": 0,
        "SELECT id FROM t": 0,
        " UNION ALL ".join(f"SELECT {n}" for n in range(9)): 0,
    }
    assert {query: runner.run(verify(task, query, box)).score for query in queries} == queries


def test_columns_by_name_may_come_in_any_order(runner, box) -> None:
    task = replace(TASK, gold="SELECT name, team FROM staff", by_name=True, num_changed=0)
    assert runner.run(verify(task, "SELECT team AS Team, name FROM staff", box)).score == 1
    assert runner.run(verify(task, "SELECT name AS team, team AS name FROM staff", box)).score == 0
    assert runner.run(verify(task, "SELECT name AS n, team FROM staff", box)).score == 0


def test_tables_of_csv_have_types_and_null(runner, box) -> None:
    task = SqlTask(csv={"t": "a,b\n1,x\n,y\n3,\n"}, gold="SELECT SUM(a), COUNT(b) FROM t", num_changed=1)
    assert runner.run(verify(task, "SELECT 4, 2", box)).parts["on_given"] == 1
    assert runner.run(verify(task, "SELECT SUM(a) + 0.0, COUNT(*) - SUM(b IS NULL) FROM t", box)).score == 1


def test_a_script_is_judged_by_what_it_leaves(runner, box) -> None:
    task = SqlTask(
        script=SCRIPT,
        gold="UPDATE staff SET pay = pay + 1 WHERE team = 'red'",
        may_write=True,
        observe=("SELECT * FROM staff",),
        num_changed=2,
    )
    right = "UPDATE staff SET pay = 1 + pay WHERE team IN ('red'); SELECT 1;"
    assert runner.run(verify(task, right, box)).score == 1
    assert runner.run(verify(task, "UPDATE staff SET pay = pay + 1", box)).score == 0
    assert runner.run(verify(task, "ATTACH 'x' AS x; " + right, box)).score == 0


def test_gold_that_fails_is_the_tasks_fault(runner, box) -> None:
    verdict = runner.run(verify(replace(TASK, gold="SELECT nothing"), RIGHT, box))
    assert verdict.kind == "unscorable" and "gold" in verdict.evidence


def test_a_result_that_hangs_on_the_order_of_rows_is_not_asked_on_changed_databases(runner, box) -> None:
    task = replace(TASK, gold="SELECT name FROM staff LIMIT 1")
    assert set(runner.run(gold_rows(task, box)).tables) == {(0, 0)}


def test_the_replys_job_knows_nothing_of_gold(gold) -> None:
    jobs = []

    class RecordingBox:
        isolation = "none"

        async def run(self, job):
            jobs.append(job)
            return Outcome(ending="killed", exit_code=None, stdout=b"", stderr=b"", answer=b"", wall_s=0.1)

        async def stop(self) -> None: ...

    assert asyncio.run(verify(TASK, RIGHT, RecordingBox(), gold)).score == 0
    assert len(jobs) == 1 and b"SUM(pay)" not in jobs[0].stdin and b"22.5" not in jobs[0].stdin


@pytest.mark.parametrize(
    ("reply", "query"),
    [
        ("```sql\nSELECT 1;\n```", "SELECT 1;"),
        ("So:\n```\nSELECT 1\n```\nThat is it.", "SELECT 1"),
        ("SELECT 1", "SELECT 1"),
        ("<think>```\nSELECT 2\n```</think>\nSELECT 1", "SELECT 1"),
        (f"<think>{'so ' * 40_000}</think>SELECT 1", "SELECT 1"),
        ("<think>Perhaps\n```\nSELECT 2\n```", ""),
        ("x" * 1_000_000, ""),
    ],
)
def test_the_query_is_found_in_the_reply(reply, query) -> None:
    assert find_query(reply) == query
