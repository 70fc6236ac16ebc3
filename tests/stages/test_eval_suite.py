"""`burnish eval`: local models, checkpoints and endpoints on suites; what is kept, and what is refused."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from rich.console import Console

from burnish.core.config import validate
from burnish.core.errors import ConfigError
from burnish.core.ledger import Ledger
from burnish.core.recipe import Recipe, TaskEntry
from burnish.core.run_folder import RunFolder
from burnish.core.seeds import derive
from burnish.domains import open_domain
from burnish.evals.runs import Store
from burnish.evals.suites import Suite
from burnish.stages.eval_models import open_model
from burnish.stages.eval_suite import evaluate_suite, open_suite
from burnish.stages.session import make_policy
from tests.fakes import tiny_loaded

QUIET = Console(quiet=True)
SUMS = Suite(name="sums", tasks=[TaskEntry(domain="arithmetic", num_eval=4)])
RECIPE = {"name": "r", "model": {"name": "tiny"}, "tasks": [{"domain": "arithmetic"}], "stages": [{"use": "evaluate"}]}


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "kept")


def test_a_model_answers_each_task_and_the_second_time_nothing_is_asked(store):
    model = open_model("tiny")
    first = evaluate_suite(model, SUMS, QUIET, store=store)
    again = evaluate_suite(model, SUMS, QUIET, store=store)
    assert [len(first.run.results), first.was_kept, again.was_kept] == [4, False, True]
    assert again.run == first.run
    assert not evaluate_suite(model, SUMS, QUIET, store=store, fresh=True).was_kept


def test_several_replies_a_task_differ_and_are_numbered(store):
    suite = SUMS.model_copy(update={"samples": 3, "temperature": 1.0})
    results = evaluate_suite(open_model("tiny"), suite, QUIET, store=store).run.results
    assert [(r.task_id[-1], r.sample) for r in results] == [(str(t), s) for t in range(4) for s in range(3)]
    assert len({r.reply for r in results}) > 4


@pytest.fixture
def run(tmp_path):
    """A run folder with a checkpoint of other weights than it began with."""
    recipe = validate(Recipe, RECIPE, "r")
    folder = RunFolder.open(tmp_path / "r", recipe, resume=False)
    Ledger(folder.path / "ledger.sqlite").close()
    loaded = tiny_loaded()
    policy = make_policy(loaded, recipe.model, 1)
    for name in ("base", "later"):
        folder.checkpoint(name).mkdir(parents=True)
        policy.save(folder.checkpoint(name), with_optimiser=name == "later")
        next(iter(policy.masters.values())).data.add_(0.1)
    folder.close()
    return folder.path


def test_a_checkpoint_is_a_model_with_weights_of_its_own(run, store):
    base, later = (open_model(str(run / "checkpoints" / name)) for name in ("base", "later"))
    assert base.fingerprint != later.fingerprint == open_model(str(run / "checkpoints" / "later")).fingerprint
    assert evaluate_suite(later, SUMS, QUIET, store=store).run.model.endswith("later")


def trained_on(run, task):
    ledger = Ledger(run / "ledger.sqlite")
    ledger.issue(0, 0, "g", task.id, task.prompt_hash)
    ledger.mark_ready(["g"])
    ledger.close()


def test_a_task_that_trained_is_refused_in_a_suite_and_left_out_of_the_runs_own_tasks(run):
    trained_on(run, open_domain("arithmetic").task("eval", derive(1, "eval"), 2))
    with pytest.raises(ConfigError, match=r"trained on 1 of its 4 tasks, for example 'arithmetic/eval/\d+/2'"):
        open_suite(SUMS, str(run / "checkpoints" / "base"), None, QUIET)
    lenient = SUMS.model_copy(update={"when_trained": "leave_out"})
    assert len(open_suite(lenient, str(run / "checkpoints" / "base"), None, QUIET).draws) == 3
    assert len(open_suite(SUMS, "tiny", None, QUIET).draws) == 4


def test_what_a_suite_holds_out_must_not_have_trained(run):
    with pytest.raises(ConfigError, match="holds out arithmetic, and the run"):
        open_suite(SUMS.model_copy(update={"held_out": True}), str(run / "final"), None, QUIET)


@pytest.fixture
def calculator():
    """A chat endpoint that can add."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_):
            pass

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append(body)
            left, right = body["messages"][-1]["content"].rstrip("=").split("+")
            message = {"role": "assistant", "content": str(int(left) + int(right))}
            answer = {"choices": [{"message": message, "finish_reason": "stop"}], "usage": {"completion_tokens": 2}}
            content = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    server.asked = asked
    yield server
    server.shutdown()
    server.server_close()


def test_a_model_behind_an_endpoint_is_asked_every_time(calculator, store):
    model = open_model(f"http://127.0.0.1:{calculator.server_address[1]}#adder")
    for times in (1, 2):
        run = evaluate_suite(model, SUMS, QUIET, store=store).run
        assert [result.score for result in run.results] == [1, 1, 1, 1]
        assert len(calculator.asked) == 4 * times
    assert {body["model"] for body in calculator.asked} == {"adder"}
    assert {body["temperature"] for body in calculator.asked} == {0.0}


def test_an_endpoint_says_which_model():
    with pytest.raises(ConfigError, match=r"write it behind a #: http://127\.0\.0\.1:1#NAME"):
        open_model("http://127.0.0.1:1")
    with pytest.raises(ConfigError, match="--api-key-env KEY does nothing"):
        open_model("tiny", "KEY")
