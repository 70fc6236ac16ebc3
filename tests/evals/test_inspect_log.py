"""The log that `inspect view` opens: its required fields, one sample a reply; read by inspect-ai itself where it is."""

import importlib.util
import json
from typing import cast

import pytest

from burnish.core.types import Message, Task
from burnish.evals.inspect_log import keep_log, log_of
from burnish.evals.suites import OpenSuite, Suite
from burnish.rollout.mixture import Draw, Source
from tests.evals.eval_runs import run_of

TASKS = {
    f"s/{n}": Task(
        id=f"s/{n}", domain="s", messages=(Message(role="user", content=f"ask {n}"),), truth={"a": n}, gold=str(n)
    )
    for n in range(2)
}
RUN = run_of([[1, None], [0.5, 0]])


def opened():
    source = cast(Source, None)
    draws = tuple(Draw(n, source, task) for n, task in enumerate(TASKS.values()))
    return OpenSuite(suite=Suite(name="s", tasks=[{"domain": "arithmetic"}]), sources=(), draws=draws)


def test_each_reply_is_a_sample_with_its_epoch_prompt_and_score():
    samples = log_of(RUN, TASKS)["samples"]
    assert [(s["id"], s["epoch"]) for s in samples] == [("s/0", 1), ("s/0", 2), ("s/1", 1), ("s/1", 2)]
    assert [s["scores"]["verdict"]["value"] for s in samples] == [1, "N", 0.5, 0]
    assert samples[0]["messages"][0] == {"role": "user", "content": "ask 0"}
    assert samples[0]["output"]["choices"][0]["message"]["content"] == "reply 0"


def test_the_headline_is_the_mean_over_tasks():
    (score,) = log_of(RUN, TASKS)["results"]["scores"]
    assert score["metrics"]["mean"]["value"] == pytest.approx((1 + 0.25) / 2)


def test_the_file_has_a_name_that_the_viewer_lists(tmp_path):
    path = keep_log(RUN, opened(), tmp_path)
    assert path.name.startswith("2001-09-09T01-46-40+00-00_s_")
    assert json.loads(path.read_text())["version"] == 2


@pytest.mark.skipif(importlib.util.find_spec("inspect_ai") is None, reason="inspect-ai is not installed here")
def test_inspect_reads_the_log(tmp_path):
    from inspect_ai.log import list_eval_logs, read_eval_log

    path = keep_log(RUN, opened(), tmp_path)
    assert len(list_eval_logs(str(tmp_path))) == 1
    log = read_eval_log(str(path))
    assert (log.status, len(log.samples), log.samples[0].scores["verdict"].value) == ("success", 4, 1)
