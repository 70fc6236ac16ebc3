"""A guard asks suites as `burnish eval` does, of what would be handed on; and where samples are under way meanwhile."""

from itertools import count
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from safetensors.torch import load_file

from burnish.core.config import validate
from burnish.core.errors import ConfigError
from burnish.core.ledger import Ledger
from burnish.core.recipe import Recipe
from burnish.evals.runs import Store
from burnish.evals.suites import opened, read_suite
from burnish.rollout.stream_log import Ended, Event, Trained, from_ledger
from burnish.stages.check import check_recipe
from burnish.stages.curriculum import GATE
from burnish.stages.eval_models import open_model
from burnish.stages.eval_suite import evaluate_suite
from burnish.stages.rl_replay import replay
from burnish.stages.runner import run_recipe

SUMS = 'layer = "regression"\nsamples = 2\ntemperature = 0.9\n[[tasks]]\ndomain = "arithmetic"\nnum_eval = 12\n'
FADING = '[[tasks]]\ndomain = "tests.stages.fading_domain"\noptions = { script = "SCRIPT" }\n'
_scripts = count()


def suite_file(folder: Path, text: str, name: str = "suite") -> str:
    (folder / f"{name}.toml").write_text(text)
    return str(folder / f"{name}.toml")


def recipe(guard: dict[str, Any], **options: Any) -> Recipe:
    stage = {
        "use": "rl", "num_steps": 2, "prompts_per_step": 2, "group_size": 3, "max_new_tokens": 6, "num_warmup": 0,
        "learning_rate": 1e-2, "guard": {"every": 1, "margin": 0.5, "alpha": 0.9, "against": "start"} | guard,
    }  # fmt: skip
    made = {
        "name": "guarded", "seed": 3, "threads": 1, "model": {"name": "tiny"}, "engine": {"max_rows": 8},
        "tasks": [
            {"domain": "tests.stages.checksum_domain", "group": "sums", "num_eval": 2, "options": {"largest": 50},
             "when_check_fails": "train_anyway"}
        ],
        "stages": [stage | options],
    }  # fmt: skip
    return validate(Recipe, made, "recipe")


def run(folder: Path, script: str, **options: Any) -> list[tuple[str, int]]:
    """A run whose guarded suite scores by a script; returns its gates, each with the first draw behind it."""
    spaced = script + "1" * (1 + next(_scripts) % 40)  # scripts are told apart by their length
    folder.mkdir()
    path = suite_file(folder, FADING.replace("SCRIPT", spaced))
    made = recipe({"suites": [path]}, num_steps=len(script) - 1, **options)
    run_recipe(made, folder, resume=False)
    rows = Ledger(folder / "guarded" / "ledger.sqlite").course(0)
    return [(row.payload["kind"], row.payload["first_draw"]) for row in rows if row.kind == GATE]


def events(folder: Path) -> list[Event]:
    moments = from_ledger(Ledger(folder / "guarded" / "ledger.sqlite").events(0))
    return [event for moment in moments for event in moment.events]


def weights(folder: Path) -> dict[str, Any]:
    return load_file(folder / "guarded" / "checkpoints" / "0-rl" / "masters.safetensors")


@pytest.mark.parametrize("ema_decay", [0.0, pytest.param(0.5, marks=pytest.mark.slow)])
def test_what_slips_at_the_end_is_not_handed_on(ema_decay: float, tmp_path: Path) -> None:
    assert [kind for kind, _ in run(tmp_path / "back", "110", ema_decay=ema_decay)] == ["promote", "roll_back"]
    run(tmp_path / "short", "11", ema_decay=ema_decay)
    run(tmp_path / "long", "111", ema_decay=ema_decay)
    back, short, long = (weights(tmp_path / name) for name in ("back", "short", "long"))
    assert all(value.equal(short[name]) for name, value in back.items())
    assert not all(value.equal(long[name]) for name, value in back.items())


@pytest.mark.parametrize("ema_decay", [0.0, 0.9])
def test_a_gate_asks_a_suite_as_burnish_eval_does_and_of_what_is_handed_on(ema_decay: float, tmp_path: Path) -> None:
    path = suite_file(tmp_path, SUMS)
    run_recipe(recipe({"suites": [path]}, learning_rate=3e-2, ema_decay=ema_decay), tmp_path, resume=False)
    folder = tmp_path / "guarded"
    in_gate = {
        task_id: (one["score"], one["reply"])
        for task_id, one in Ledger(folder / "ledger.sqlite").guarded(0, 2, "suite").items()
    }
    candidate = open_model(str(folder / "checkpoints" / "0-rl"))
    suite, quiet = read_suite(path), Console(quiet=True)
    evaluated = evaluate_suite(candidate, suite, quiet, store=Store(tmp_path / "kept")).run
    ours = {one.task_id: one for one in evaluated.results if one.sample == 0}
    scores = {
        task_id: sum(one.score or 0 for one in evaluated.results if one.task_id == task_id) / 2 for task_id in ours
    }
    assert in_gate == {task_id: (scores[task_id], one.reply) for task_id, one in ours.items()}
    assert len({reply for _, reply in in_gate.values()}) > 3


@pytest.mark.parametrize("ema_decay", [0.0, pytest.param(0.5, marks=pytest.mark.slow)])
def test_no_sample_of_given_up_weights_trains_in_an_asynchronous_run(ema_decay: float, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    decided = run(folder, "11011", max_staleness=2, ema_decay=ema_decay)
    assert [kind for kind, _ in decided] == ["promote", "roll_back", "promote", "promote"]
    told = events(folder)
    steps = {event.step: [number for number, _ in event.groups] for event in told if isinstance(event, Trained)}
    (_, first_draw) = decided[1]
    assert max(steps[0] + steps[1]) < first_draw <= min(steps[2] + steps[3])
    given_up = [event.number for event in told if isinstance(event, Ended) and event.why == "rolled_back"]
    assert given_up
    assert max(given_up) < first_draw
    assert_accounted(folder, told)
    (repeated,) = replay(folder / "guarded")
    assert repeated.is_equal


def assert_accounted(folder: Path, told: list[Event]) -> None:
    """Each prompt that was issued trained or was let go, once."""
    trained = [number for event in told if isinstance(event, Trained) for number, _ in event.groups]
    ended = [event.number for event in told if isinstance(event, Ended)]
    ledger = Ledger(folder / "guarded" / "ledger.sqlite")
    assert len({*trained, *ended}) == len(trained) + len(ended)
    assert ledger.group_counts(0) == (0, 0, len(trained), len(ended))
    assert ledger.pending(0) == []


def test_an_asynchronous_run_goes_back_to_its_beginning_and_hands_that_on(tmp_path: Path) -> None:
    assert [kind for kind, _ in run(tmp_path / "run", "1000", max_staleness=1)] == ["roll_back"] * 3
    base = load_file(tmp_path / "run" / "guarded" / "checkpoints" / "base" / "masters.safetensors")
    assert all(value.equal(base[name]) for name, value in weights(tmp_path / "run").items())
    (repeated,) = replay(tmp_path / "run" / "guarded")
    assert repeated.is_equal


def test_what_is_guarded_does_not_train(tmp_path: Path) -> None:
    path = suite_file(tmp_path, SUMS.replace("num_eval = 12", "num_eval = 12\noptions = { largest = 3 }"))
    made = recipe({"suites": [path]}, prompts_per_step=4)
    (entry,) = made.tasks
    made = made.model_copy(update={"tasks": [entry.model_copy(update={"options": {"largest": 3}, "num_eval": 1})]})
    run_recipe(made, tmp_path, resume=False)
    ledger = Ledger(tmp_path / "guarded" / "ledger.sqlite")
    asked = {draw.task.prompt_hash for draw in opened(read_suite(path)).draws}
    assert not asked & {one.prompt_hash for one in ledger.issued(0).values()}


def test_a_suite_of_which_an_earlier_stage_shows_tasks_is_refused_before_anything_runs(tmp_path: Path) -> None:
    path = suite_file(tmp_path, SUMS.replace("num_eval = 12", "num_eval = 12\noptions = { largest = 3 }"))
    made = recipe({"suites": [path]})
    sums = made.tasks[0].model_copy(update={"domain": "arithmetic", "options": {"largest": 3}, "num_eval": 1})
    shown = {"use": "sft", "num_examples": 8}
    check_recipe(made.model_copy(update={"tasks": [sums]}))
    with pytest.raises(ConfigError, match=r"'sft' before it: suite 'suite': the model was trained on \d+ of its 12"):
        check_recipe(made.model_copy(update={"tasks": [sums], "stages": [shown, *made.stages]}))


HELD_OUT = 'held_out = true\n[[tasks]]\ndomain = "tests.stages.checksum_domain"\n'


@pytest.mark.parametrize(
    ("suites", "options", "message"),
    [
        (["regression", "regression_knowledge"], {}, "comes to 'regression_knowledge' twice"),
        (["lm_eval:arc_easy"], {}, "evaluate it after the run"),
        (["no_such_suite"], {}, "no entry of tasks is reported under .there are: sums., and no suite"),
        (["HELD_OUT"], {}, "holds out tests.stages.checksum_domain, and the recipe trains on it"),
        (["SUMS"], {}, "'sums' is a suite, and entries of tasks are reported under it"),
        (["regression"], {"margins": {"ladder_facts": 0.1}}, "margins has 'ladder_facts', and guarded are: reg"),
        (["PINNED"], {}, "pins its tasks as sha256:0000"),
    ],
)
def test_what_cannot_be_guarded_is_refused_before_anything_runs(
    suites: list[str], options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    files = {
        "HELD_OUT": suite_file(tmp_path, HELD_OUT, "held"),
        "SUMS": suite_file(tmp_path, SUMS, "sums"),
        "PINNED": suite_file(tmp_path, f'prompts = "sha256:{"0" * 64}"\n' + SUMS, "pinned"),
    }
    with pytest.raises(ConfigError, match=message):
        check_recipe(recipe({"suites": [files.get(word, word) for word in suites]} | options))


def test_a_layer_is_guarded_suite_by_suite_with_margins_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    margins = {"regression": 0.2, "regression_knowledge": 0.3}
    check_recipe(recipe({"suites": ["sums", "regression"], "margins": margins, "margin": 0.1}))
    told = " ".join(capsys.readouterr().err.split())
    assert "sums (margin 0.1), regression_instructions (margin 0.2), regression_knowledge (margin 0.3)" in told
