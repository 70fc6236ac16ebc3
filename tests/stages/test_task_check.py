"""A task set that pays for the wrong thing does not train, unless the recipe says so by name."""

import sys
from pathlib import Path

import pytest
from rich.console import Console

from burnish.core.config import validate
from burnish.core.errors import ConfigError
from burnish.core.recipe import Recipe
from burnish.rollout.mixture import Source
from burnish.stages.check import check_recipe, prove_tasks
from burnish.stages.runner import run_recipe
from burnish.stages.session import open_sources
from burnish.stages.task_check import refuse_unproven

DOMAIN = """
from burnish.core.types import Message, Task, Verdict
class Words:
    name = "judged.{file}"
    executes_code = False
    def size(self, split):
        return 4
    def task(self, split, seed, index):
        word = "abcd"[index] * 3 + split
        return Task(id=f"{{self.name}}/{{split}}/{{seed}}/{{index}}", domain=self.name, gold=word, truth={{"w": word}},
                    messages=(Message(role="user", content=f"Say {{word[::-1]}} backwards"),))
    async def verify(self, task, reply, box):
        return Verdict.scored(float({right}))
def load(argument, options):
    return Words()
"""
STAGES = {"trains": [{"use": "sft", "num_examples": 8}], "only evaluates": [{"use": "evaluate"}]}
SOUND, ANY_TEXT, ANY_OF_THEM = "reply == task.gold", "bool(reply)", "task.gold in reply"


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A recipe on words that are right by the expression given; what held is noted in an empty folder."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("BURNISH_CACHE", str(tmp_path / "cache"))

    def write(file: str, right: str, stages: str = "trains", **entry: object) -> Recipe:
        (tmp_path / "judged").mkdir(exist_ok=True)
        (tmp_path / "judged" / f"{file}.py").write_text(DOMAIN.format(file=file, right=right))
        sys.modules.pop(f"judged.{file}", None)
        tasks = [{"domain": f"judged.{file}", "num_eval": 2, **entry}]
        data = {"name": "r", "model": {"name": "tiny"}, "tasks": tasks, "stages": STAGES[stages]}
        return validate(Recipe, data, "r.toml")

    return write


def noted(tmp_path: Path) -> int:
    return len(list((tmp_path / "cache").rglob("*.txt")))


def test_tasks_that_hold_are_let_through_and_noted(recipe, tmp_path) -> None:
    prove_tasks(recipe("sound", SOUND), [])
    assert noted(tmp_path) == 0  # no stage trains
    check_recipe(recipe("sound", SOUND))
    assert noted(tmp_path) == 1


@pytest.mark.parametrize(
    ("file", "right", "claim"),
    [
        ("kind", ANY_TEXT, "junk scores 0"),
        ("spray", ANY_OF_THEM, "gold beside another answer is not right"),
        ("stern", "0", "gold scores 1"),
        ("broken", "1 if reply == task.gold else 1 / len(reply)", "an empty reply scores 0"),
    ],
)
def test_tasks_that_pay_for_the_wrong_thing_are_refused_with_the_way_out(recipe, tmp_path, file, right, claim) -> None:
    with pytest.raises(ConfigError, match=claim) as refused:
        run_recipe(recipe(file, right), tmp_path / "runs", resume=False)
    assert 'when_check_fails = "train_anyway"' in str(refused.value)
    assert noted(tmp_path) == 0 and not (tmp_path / "runs" / "r").exists()


def test_an_evaluation_alone_asks_for_no_proof(recipe) -> None:
    check_recipe(recipe("kind_too", ANY_TEXT, "only evaluates"))


def test_forced_by_name_they_train_and_each_run_says_so(recipe, tmp_path) -> None:
    forced = recipe("forced", ANY_TEXT, when_check_fails="train_anyway")
    for _ in range(2):
        console = Console(record=True, width=300)
        refuse_unproven(forced, sources(forced), console)
        assert "judged.forced fails its check, and trains all the same" in console.export_text()
    assert noted(tmp_path) == 0


def test_a_changed_verifier_is_proved_anew(recipe, tmp_path) -> None:
    check_recipe(recipe("changing", SOUND))
    with pytest.raises(ConfigError, match="junk scores 0"):
        check_recipe(recipe("changing", ANY_TEXT))


def sources(recipe: Recipe) -> list[Source]:
    return open_sources(recipe.tasks, recipe.sandbox, Console(quiet=True))
