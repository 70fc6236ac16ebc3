"""reasoning-gym's generators: what is asked, which answers reach a scorer, and what a scorer's end means."""

import asyncio
import json
import subprocess
import sys
import time
from dataclasses import replace
from fractions import Fraction

import pytest

from burnish.core.errors import ConfigError, SandboxError
from burnish.domains import open_domain
from burnish.domains.rg import BLOCK, belongs_to
from burnish.domains.rg_answers import EVALUATED, EXCLUDED, LONGEST, PATTERNS, complaint, extract
from burnish.domains.rg_verdict import judge
from burnish.sandbox import Outcome, missing, open_box

EASY_SUM = {"min_terms": 2, "max_terms": 2, "min_digits": 1, "max_digits": 2}
NINE_EVALUATING = (
    "binary_matrix countdown intermediate_integration n_queens polynomial_multiplication puzzle24 simple_integration"
    " spiral_matrix string_insertion"
).split()
CHEATS = [
    "",
    "I do not know.",
    "{gold} garbage",
    "garbage {gold}",
    "{gold}\ngarbage",
    "{gold} or 7",
    "{gold}, {gold}",
    "{gold} {gold}",
    "Answer: {gold}\nor not",
    "__import__('os')._exit(0)",
    "nan",
]
HEDGES = [
    "{gold} 7",
    "{gold}, or 7",
    "{gold} # 7",
    "x{gold}",
    "not {gold}",
    "either {gold} or 7",
    "{gold}, unless it is 7",
    "{gold}\n# 7",
    "0 1 2 3 4 5 6 7 8 9",
    "yes no true false",
]


def test_what_is_left_to_an_answer_never_exceeds_what_is_left_of_the_job():
    program = (
        "import sys, types; sys.modules['reasoning_gym'] = types.ModuleType('reasoning_gym');"
        "from burnish.domains import rg_worker; from resource import RLIMIT_CPU, getrlimit, setrlimit;"
        "setrlimit(RLIMIT_CPU, (10, 11)); rg_worker._allow(20.0); print(getrlimit(RLIMIT_CPU))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout == "(11, 11)\n", done.stderr


@pytest.fixture(scope="module")
def box():
    """A box that has the package preloaded where the host can isolate; without, each job takes seconds to import it."""
    with asyncio.Runner() as runner:
        context = open_box("none" if missing() else "namespaces")
        yield runner.run(context.__aenter__())
        runner.run(context.__aexit__(None, None, None))


def outcome(answer=b"", ending="exited", stderr=b""):
    return Outcome(ending=ending, exit_code=0, stdout=b"", stderr=stderr, answer=answer, wall_s=0.0)


def lines(reference, *scores):
    rows = [{"question": "q", "reference": reference}, *({"score": score} for score in scores)]
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def verify(domain, task, reply, box):
    return asyncio.run(domain.verify(task, reply, box))


@pytest.mark.parametrize(
    "generator", ["chain_sum", "word_sorting", "tower_of_hanoi", "simple_integration", "countdown", "spell_backward"]
)
def test_gold_scores_one_and_gold_with_anything_beside_it_nothing(generator, box):
    domain = open_domain(f"rg:{generator}")
    task = domain.task("train", 1, 0)
    assert verify(domain, task, task.gold, box).score == 1.0
    assert verify(domain, task, f"Let me see.\nAnswer: {task.gold}\n", box).score == 1.0
    for cheat in CHEATS:
        assert verify(domain, task, cheat.format(gold=task.gold), box).score == 0.0, cheat


def test_a_reply_that_makes_the_scorer_raise_is_wrong_and_says_so(box):
    domain = open_domain("rg:prime_factorization")
    verdict = verify(domain, domain.task("train", 1, 0), "two times three", box)
    assert (verdict.kind, verdict.score) == ("scored", 0.0)
    assert "the scorer could not read 'two times three' (" in verdict.evidence and "ValueError" in verdict.evidence


def test_an_answer_that_never_ends_costs_two_seconds_of_processor_time(box):
    domain = open_domain("rg:simple_integration")
    ended = []

    class RecordingBox:
        async def run(self, job):
            ended.append(await box.run(job))
            return ended[0]

    verdict = verify(domain, domain.task("train", 1, 0), "9**9**9**9", RecordingBox())
    assert verdict.score == 0.0 and "exceeded its limits" in verdict.evidence
    assert ended[0].cpu_s is None or ended[0].cpu_s < 3.0


def test_another_package_in_the_sandbox_is_noticed(box):
    domain = open_domain("rg:chain_sum")
    task, other = domain.task("train", 1, 0), domain.task("train", 1, 1)
    moved = type(task)(
        **{name: getattr(task, name) for name in ("id", "domain", "messages")},
        truth={**task.truth, "item": other.truth["item"]},
    )
    verdict = verify(domain, moved, "1", box)
    assert verdict.kind == "unscorable" and "another question" in verdict.evidence


def test_an_answer_that_is_a_number_has_a_second_opinion_without_the_scorer():
    domain = open_domain("rg:chain_sum", EASY_SUM)
    task = domain.task("train", 1, 0)
    gold = task.gold
    replies = {gold: 1, f"It is\nAnswer: {gold}": 1, f"{gold}.0": 1, f"{gold} or 7": 0, "1" + gold.strip("-"): 0, "": 0}
    seconds = {reply: asyncio.run(domain.second_opinion(task, reply, None)).score for reply in replies}
    assert seconds == replies
    for reference in ("0110", "seven", "3, 4", None):
        other = replace(task, truth={**task.truth, "reference": reference})
        assert asyncio.run(domain.second_opinion(other, "0110", None)) is None


def test_a_failure_of_the_sandbox_propagates():
    class Broken:
        isolation = "none"

        async def run(self, job):
            raise SandboxError("no more processes")

    domain = open_domain("rg:chain_sum")
    with pytest.raises(SandboxError):
        verify(domain, domain.task("train", 1, 0), "1", Broken())


@pytest.mark.parametrize(
    ("ended", "kind", "score", "evidence"),
    [
        (outcome(lines("1.0", "1.0")), "scored", 1.0, "gives 1 to"),
        (outcome(lines("1.0", "0.9999999999999999")), "scored", 0.0, "gives 1 to"),
        (outcome(lines(None, "1")), "scored", 1.0, ""),
        (outcome(lines("1.0", "nan")), "unscorable", None, "gives nan"),
        (outcome(lines("1.0", "1.5")), "unscorable", None, "gives 1.5"),
        (outcome(lines("1.0", "-0.1")), "unscorable", None, "gives -0.1"),
        (outcome(lines("0.5", "1.0")), "unscorable", None, "to the reference answer"),
        (outcome(lines("nan", "1.0")), "unscorable", None, "to the reference answer"),
        (outcome(lines("1.0"), stderr=b"Traceback\nValueError: x\n"), "scored", 0.0, "ValueError: x"),
        (outcome(lines("1.0"), "timed_out"), "scored", 0.0, "exceeded its limits on 'a' (timed_out)"),
        (outcome(lines("1.0"), "over_memory"), "scored", 0.0, "exceeded its limits"),
        (outcome(b"", "timed_out"), "timeout", None, "before it saw the reply"),
        (outcome(b"", "killed"), "unscorable", None, "before it saw the reply"),
        (outcome(b"", stderr=b"ImportError: y"), "unscorable", None, "ImportError: y"),
    ],
)
def test_what_an_end_means(ended, kind, score, evidence):
    verdict = judge(ended, question="q", answer="a")
    assert (verdict.kind, verdict.score) == (kind, score)
    assert evidence in verdict.evidence


@pytest.mark.parametrize(
    ("reply", "is_one_line", "answer"),
    [
        (" 42 \n", True, "42"),
        ("I add.\n\n42\n\n", True, "42"),
        ("42\nI am sure.", True, "I am sure."),
        ("Answer: 42", True, "42"),
        ("**Answer:** 42", True, "42"),
        ("answer : 1\nAnswer: 2", True, "2"),
        ("Answer: 42\nI am sure.", True, "42\nI am sure."),
        ("The answer: 42", True, "The answer: 42"),
        ("1 2\n3 4\n", False, "1 2\n3 4"),
        ("Well.\nAnswer:\n1 2\n3 4", False, "1 2\n3 4"),
        ("<think>Answer: 41\n</think>\n1 2\n3 4", False, "1 2\n3 4"),
        ("<think>Answer: 42", True, ""),
        ("\n \n", True, ""),
    ],
)
def test_the_answer_is_taken_out_by_one_rule(reply, is_one_line, answer):
    assert extract(reply, is_one_line=is_one_line) == answer


def test_every_scorer_that_evaluates_answers_is_guarded_or_excluded():
    assert set(NINE_EVALUATING) <= EVALUATED | set(EXCLUDED)
    assert set(PATTERNS) >= EVALUATED


@pytest.mark.parametrize("generator", sorted(EVALUATED))
@pytest.mark.parametrize(
    "answer",
    [
        "__import__('os').system('x')",
        "().__class__",
        "exit()",
        "print(1)",
        "lambda: 0",
        "x.y",
        "[1]",
        "'a'",
        "a:=1",
        "1;2",
        "S(1)",
        "ab(1)",
        "x(1)",
        "\\x41",
    ],
)
def test_nothing_but_arithmetic_reaches_a_scorer_that_evaluates(generator, answer):
    assert complaint(generator, None, answer)


@pytest.mark.parametrize(
    ("generator", "reference", "right", "wrong"),
    [
        ("polynomial_equations", "0.8469", "0.847", "0.8469, or 7"),
        ("pool_matrix", "9 7 8 7", "9 7 8 7", "9 7 8 7 # 1 2 3 4"),
        ("tower_of_hanoi", "Move", "Move disk 1 from Peg 3 to Peg 2", "xMove disk 1 from Peg 3 to Peg 2"),
        ("rubiks_cube", "U B U", "U2 B' Rw U", "U B U 7"),
        ("graph_color", '{"0": 1, "1": 2}', '{"0":2,"1":1}', '{"0": 1, "0": 2, "1": 1}'),
        ("intermediate_integration", "x + C", "x**2 + C", "2*Integral(x**2*cos(2*x), x) + C"),
    ],
)
def test_a_scorer_that_pays_for_more_than_the_answer_does_not_see_it(generator, reference, right, wrong):
    assert complaint(generator, reference, wrong) and not complaint(generator, reference, right)


@pytest.mark.parametrize("generator", ["graph_color", "rubiks_cube"])
def test_a_generator_that_names_no_answer_has_one_that_its_scorer_pays_in_full(generator, box):
    domain = open_domain(f"rg:{generator}")
    task = domain.task("train", 1, 0)
    assert task.gold and verify(domain, task, task.gold, box).score == 1.0


def test_powers_cannot_be_stacked_in_countdown():
    assert complaint("countdown", None, "9**9") and not complaint("countdown", None, "9*(9+1)/3")


@pytest.mark.parametrize("generator", sorted(PATTERNS))
@pytest.mark.parametrize(
    "part", ["1", "1 ", "A ", "A, ", "a is a b", "a is a b, ", "x*", "sin", "1.", "(1", "Q_", "- "]
)
def test_patterns_are_matched_in_linear_time(generator, part):
    started = time.process_time()
    complaint(generator, "1", part * (LONGEST // len(part) - 1) + "!")
    assert time.process_time() - started < 0.2


def test_a_sorted_list_of_other_numbers_is_wrong_though_the_scorer_is_kind():
    assert complaint("number_sorting", "['1.5', '2.5']", "['1.6', '2.5']")
    assert not complaint("number_sorting", "['1.5', '2.5']", '["1.50", "2.5"]')


def test_equal_seeds_give_equal_tasks_in_any_order_and_others_do_not():
    domain, again = open_domain("rg:chain_sum"), open_domain("rg:chain_sum")
    tasks = [domain.task("train", 3, index) for index in range(2 * BLOCK)]
    assert tasks == [again.task("train", 3, index) for index in reversed(range(2 * BLOCK))][::-1]
    assert not {t.prompt_hash for t in tasks} & {domain.task("train", 4, index).prompt_hash for index in range(BLOCK)}


def test_no_prompt_is_in_both_splits_even_in_a_small_space():
    domain = open_domain("rg:chain_sum", {**EASY_SUM, "max_digits": 1})
    train = {domain.task("train", 1, index).prompt_hash for index in range(600)}
    held_out = {domain.task("eval", 1, index).prompt_hash for index in range(200)}
    assert not train & held_out
    assert len(train) > 80 and len(held_out) > 20


def test_a_quarter_of_all_questions_are_kept_for_eval():
    share = Fraction(sum(belongs_to(f"What is {n} + 1?") == "eval" for n in range(4000)), 4000)
    assert Fraction(22, 100) < share < Fraction(28, 100)


def test_a_split_without_any_question_says_so():
    domain = open_domain("rg:count_bits", {"min_n": 5, "max_n": 5})
    with pytest.raises(ConfigError, match="there are too few different ones"):
        domain.task("eval", 1, 0)


def test_options_are_the_generators_settings():
    domain = open_domain("rg:chain_sum", EASY_SUM)
    question = domain.task("train", 1, 0).messages[0].content
    assert question.count("+") + question.count(" - ") == 1
    assert question.endswith("\nGive only the final answer, on one line.")


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("rg", {}, "no generator ''; there are: ab, "),
        ("rg:chain_sums", {}, "did you mean 'chain_sum'?"),
        ("rg:chain_sum", {"max_term": 2}, "unknown option 'max_term'; known options: min_terms, max_terms"),
        ("rg:chain_sum", {"seed": 2}, "unknown option 'seed'"),
        ("rg:chain_sum", {"min_terms": 5, "max_terms": 2}, "refuses the options"),
        ("rg:chain_sum", {"min_terms": "two"}, "refuses the options"),
        ("rg:game_of_life_halting", {}, "is excluded: its scorer pays in full for any text"),
        ("rg:composite", {}, r"write one \[\[tasks\]\] entry for each"),
    ],
)
def test_a_wrong_name_or_option_says_what_is_known(name, options, message):
    with pytest.raises(ConfigError, match=message):
        open_domain(name, options)


def test_the_module_imports_neither_torch_nor_reasoning_gym_before_it_is_used():
    program = (
        "import sys, burnish.domains.rg as rg; assert 'reasoning_gym' not in sys.modules\n"
        "rg.load('chain_sum', {}); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def faults(generator, box):
    """What goes against a generator: gold that scores under 1, or something else that scores."""
    domain = open_domain(f"rg:{generator}")
    task, other = domain.task("train", 2, 0), domain.task("train", 2, 1)
    if verify(domain, task, "", box).score != 0.0:
        yield generator, "the empty reply scores"
    if task.gold is None:
        return
    if (verdict := verify(domain, task, task.gold, box)).score != 1.0:
        yield generator, verdict
    for cheat in [*CHEATS, *HEDGES, f"{{gold}} {other.gold}"]:
        if verify(domain, task, cheat.replace("{gold}", task.gold), box).score != 0.0:
            yield generator, cheat


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_every_generator_pays_for_gold_alone(box):
    import reasoning_gym.factory

    generators = sorted(set(reasoning_gym.factory.DATASETS) - set(EXCLUDED))
    assert len(generators) > 90
    assert [fault for generator in generators for fault in faults(generator, box)] == []


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_tasks_do_not_depend_on_the_process_that_makes_them():
    program = (
        "import random, sys, hashlib, numpy; from burnish.domains import open_domain; from burnish.domains.rg import "
        "_config_classes; random.seed(int(sys.argv[1])); numpy.random.seed(int(sys.argv[1]))\n"
        "for name in _config_classes():\n"
        "    domain = open_domain('rg:' + name); order = [0, 1, 2] if sys.argv[1] == '1' else [2, 1, 0]\n"
        "    print(name, sorted((i, domain.task('train', 5, i).content_hash) for i in order))\n"
    )
    outputs = [
        subprocess.run(
            [sys.executable, "-c", program, seed],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    differing = [a.split()[0] for a, b in zip(*(output.splitlines() for output in outputs), strict=True) if a != b]
    assert differing == []
