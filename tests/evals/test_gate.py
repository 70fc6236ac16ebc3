import pytest

from burnish.core.interval import Interval
from burnish.evals.gate import compare, gate
from burnish.evals.records import EvalResult, failures, not_scored, summarise


def result(index, score, name="code", **fields):
    kind = "scored" if score is not None else "timeout"
    given = {"task_id": f"{name}/{index}", "report_name": name, "source": "", "kind": kind, "reply": ""}
    return EvalResult(**{**given, "score": score, **fields})


def results(scores, name="code"):
    return [result(index, score, name) for index, score in enumerate(scores)]


def test_a_score_belongs_to_scored_results_only():
    with pytest.raises(ValueError, match="code/0"):
        result(0, 0.5, kind="timeout")


def test_unscored_results_leave_the_mean_and_are_counted():
    evaluation = results([1, 0, None, 1, None])
    assert summarise(evaluation)["code"].mean == pytest.approx(2 / 3)
    assert summarise(evaluation)["code"].n == 3
    assert not_scored(evaluation) == {"code": {"timeout": 2}}


def test_a_domain_without_a_score_has_no_mean():
    assert summarise(results([None, None])) == {}


def test_sources_widen_the_interval():
    scores = [int(index < 100) for index in range(200)]
    alone = summarise(results(scores))["code"]
    grouped = summarise([result(i, s, source=f"family-{i // 20}") for i, s in enumerate(scores)])["code"]
    assert grouped.high - grouped.low > 2 * (alone.high - alone.low)


def test_failures_count_cut_off_replies_unscored_verdicts_and_short_parts():
    evaluation = [
        result(0, 0.5, parts={"total": 0.0, "date": 1.0}),
        result(1, 0.0, parts={"total": 0.0, "date": 0.5}, stop_reason="length"),
        result(2, None),
    ]
    assert failures(evaluation) == {
        "code": {"part: total": 2, "part: date": 1, "stop: length": 1, "verdict: timeout": 1}
    }


def test_pairs_are_tasks_scored_both_times():
    comparison = compare(results([0, 0, None, 1]), results([1, None, 1, 1]))["code"]
    assert comparison.difference.n == 2
    assert comparison.difference.mean == pytest.approx(0.5)
    assert comparison.before == Interval(*summarise(results([0, 0, None, 1]))["code"])
    assert (comparison.not_scored_before, comparison.not_scored_after) == ({"timeout": 1}, {"timeout": 1})


def test_pairs_are_found_by_id_whatever_their_order():
    before, after = results([0, 1, 0, 1, 1, 0]), results([0, 1, 0, 1, 1, 0])
    assert compare(before, after[::-1])["code"].difference.mean == 0


def test_a_task_that_stands_twice_is_rejected():
    with pytest.raises(ValueError, match="code/0"):
        compare(results([0]) * 2, results([1]))


def test_a_run_with_gains_is_promoted():
    decision = gate(compare(results([0] * 40), results([1] * 20 + [0] * 20)))
    assert decision.kind == "promote"
    assert decision.reasons["code"].startswith("significantly better: +0.500 on 40 tasks")


def test_one_domain_that_got_worse_holds_the_run():
    before = results([0] * 40) + results([1] * 40, "documents")
    after = results([1] * 40) + results([0] * 20 + [1] * 20, "documents")
    decision = gate(compare(before, after))
    assert decision.kind == "hold"
    assert decision.reasons["documents"].startswith("significantly worse: -0.500")


def test_a_loss_within_chance_promotes():
    decision = gate(compare(results([1] * 40), results([1] * 37 + [0] * 3)))
    assert decision.kind == "promote"
    assert decision.reasons["code"].startswith("no clear change: -0.075")


def test_holm_spares_one_weak_loss_among_many_domains():
    lost_six = compare(results([1] * 40), results([1] * 34 + [0] * 6))
    assert gate(lost_six).kind == "hold"
    three = {**lost_six, **compare(results([1] * 40, "a"), results([1] * 40, "a"))}
    assert gate(three).adjusted_p["code"] == pytest.approx(2 * 2 / 64)
    assert gate(three).kind == "promote"


@pytest.mark.parametrize("after", [[None] * 40, [1] * 35 + [None] * 5, []])
def test_a_domain_that_cannot_be_judged_holds_the_run(after):
    decision = gate(compare(results([0] * 40), results(after)))
    assert decision.kind == "hold"
    assert decision.reasons["code"].startswith("cannot be judged")


def test_no_domain_at_all_is_held():
    assert gate({}).kind == "hold"
