"""A gate promotes, holds or rolls back; and how often it errs, by simulation with the code that decides."""

from collections.abc import Sequence

import numpy as np
import pytest

from burnish.evals.guarding import GateKind, Guarded, run_gate
from burnish.evals.records import EvalResult


def results(scores: Sequence[float | None]) -> list[EvalResult]:
    return [
        EvalResult(
            task_id=str(n), report_name="d", source="", score=score, reply="",
            kind="unscorable" if score is None else "scored",
        )
        for n, score in enumerate(scores)
    ]  # fmt: skip


def suite(num: int, margin: float = 0.1, name: str = "s") -> Guarded:
    return Guarded(name, [f"task {n}" for n in range(num)], margin)


def gate(before: Sequence[float | None], after: Sequence[float | None], margin: float = 0.2) -> tuple[GateKind, int]:
    taken = [0]

    def take(name: str, num: int) -> list[EvalResult]:
        taken[0] = max(taken[0], num)
        return results(after)[:num]

    verdict = run_gate(
        [suite(len(before), margin)], {"start": {"s": results(before)}}, take, alpha=0.05, num_gates=1, num_against=1,
        at_least=10,
    )  # fmt: skip
    return verdict.kind, taken[0]


def test_what_is_clearly_worse_is_rolled_back_before_all_tasks_are_taken() -> None:
    assert gate([1.0] * 100, [0.0] * 100) == ("roll_back", 10)


def test_what_is_the_same_is_promoted() -> None:
    assert gate([1.0, 0.0] * 50, [1.0, 0.0] * 50)[0] == "promote"


def test_too_few_tasks_hold_and_say_how_many_more() -> None:
    assert gate([1.0] * 9, [1.0] * 9) == ("hold", 9)
    verdict = run_gate(
        [suite(9)], {"start": {"s": results([1.0] * 9)}}, lambda name, num: results([1.0] * num), alpha=0.05,
        num_gates=1, num_against=1, at_least=10,
    )  # fmt: skip
    assert verdict.compared[0].answer.num_more > 9
    assert verdict.compared[0].in_words.startswith(
        f"inconclusive: needs about {verdict.compared[0].answer.num_more} more"
    )


def test_replies_that_cannot_be_scored_never_make_a_pass() -> None:
    assert gate([1.0] * 100, [1.0] * 80 + [None] * 20)[0] == "promote"  # it had passed before they came
    unscored = ([None] + [1.0] * 4) * 20
    assert gate([1.0] * 100, unscored) == ("hold", 100)


def test_a_suite_that_fails_ends_the_gate_and_is_named() -> None:
    suites = [suite(50, name="a"), suite(50, name="b"), suite(50, name="c")]
    scores = {"a": [1.0] * 50, "b": [0.0] * 50, "c": [1.0] * 50}
    taken: list[str] = []

    def take(name: str, num: int) -> list[EvalResult]:
        taken.append(name)
        return results(scores[name])[:num]

    references = {"start": dict.fromkeys("abc", results([1.0] * 50))}
    verdict = run_gate(suites, references, take, alpha=0.05, num_gates=2, num_against=2, at_least=25)
    assert (verdict.kind, verdict.slipped) == ("roll_back", ["b"])
    assert set(taken) == {"a", "b"}
    assert {one.alpha for one in verdict.compared} == {0.05 / (2 * 3 * 2)}


def test_looks_come_at_the_ends_of_sources_once_there_are_enough() -> None:
    clusters = [f"source {n // 3}" for n in range(36)]
    assert Guarded("s", clusters, 0.1).looks(4) == [24, 30, 36]
    assert Guarded("s", clusters, 0.1).num_units == 12
    assert Guarded("s", clusters[:12], 0.1).looks(5) == [5, 10, 12]  # four sources: tasks are the unit
    assert Guarded("s", clusters[:12], 0.1).num_units == 12


NUM_GATES, NUM_TASKS, MARGIN, ALPHA = 4, 100, 0.2, 0.05


def rolled_back(rng: np.random.Generator, loss: float) -> bool:
    """A run of four gates on two suites whose checkpoints solve each task with the chance of the start, less `loss`."""
    chances = {name: rng.uniform(0.3, 0.9, NUM_TASKS) for name in "ab"}
    suites = [Guarded(name, [f"{n}" for n in range(NUM_TASKS)], MARGIN) for name in "ab"]

    def drawn(lost: float) -> dict[str, list[EvalResult]]:
        return {name: results((rng.random(NUM_TASKS) < p - lost).astype(float).tolist()) for name, p in chances.items()}

    references = {"start": drawn(0.0)}
    for _ in range(NUM_GATES):
        now = drawn(loss)
        verdict = run_gate(
            suites, references, lambda name, num, now=now: now[name][:num], alpha=ALPHA, num_gates=NUM_GATES,
            num_against=2, at_least=50,
        )  # fmt: skip
        if verdict.kind == "roll_back":
            return True
        if verdict.kind == "promote":
            references["promoted"] = now
    return False


@pytest.mark.parametrize("loss", [0.0, MARGIN])
def test_of_200_harmless_runs_no_more_are_rolled_back_than_alpha_says(loss: float) -> None:
    """A loss of the whole margin is the worst that is still harmless."""
    rng = np.random.default_rng(1)
    assert sum(rolled_back(rng, loss) for _ in range(200)) <= ALPHA * 200


def test_nine_in_ten_runs_that_lose_two_margins_are_rolled_back() -> None:
    rng = np.random.default_rng(2)
    assert sum(rolled_back(rng, 2 * MARGIN) for _ in range(40)) >= 36
