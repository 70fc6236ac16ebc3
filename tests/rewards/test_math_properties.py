"""The verifier `math` on generated answers: rewriting keeps an answer, another value loses it, nothing crashes it."""

import string
import time
from fractions import Fraction

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from burnish.rewards.math.judging import decide

RELAXED = settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow])
PIECES = [
    "\\frac", "{", "}", "1", "2", "9", "x", "\\sqrt", "^", "_", "(", ")", "[", "]", "\\{", "\\}", ",", "+", "-",
    "*", "/", "!", "=", "<", "\\le", "\\pi", "\\infty", "\\cup", "\\in", "\\pm", "\\sin", "\\log", "\\text{ cm}",
    "|", ":", " or ", "\\begin{pmatrix}", "\\end{pmatrix}", "&", "\\\\", "%", "\\$", "\\boxed{", "10^", "e", "i",
    "½", "\ud800", "$", "\\int", ".", "####", "<answer>", "<think>", "</think>", "The answer is ", "and", " ",
]  # fmt: skip


def leaves():
    whole = st.integers(-30, 30).map(lambda n: (str(n) if n >= 0 else f"({n})", Fraction(n)))
    ratio = st.tuples(st.integers(1, 30), st.integers(1, 30)).map(
        lambda pair: (f"\\frac{{{pair[0]}}}{{{pair[1]}}}", Fraction(*pair))
    )
    return st.one_of(whole, ratio)


def joined(children):
    """Sums, differences and products, with their values worked out beside them."""
    pairs = st.tuples(children, children)
    return st.one_of(
        pairs.map(lambda p: (f"({p[0][0]}+{p[1][0]})", p[0][1] + p[1][1])),
        pairs.map(lambda p: (f"\\left({p[0][0]} - {p[1][0]}\\right)", p[0][1] - p[1][1])),
        pairs.map(lambda p: (f"{p[0][0]} \\cdot {p[1][0]}", p[0][1] * p[1][1])),
        children.map(lambda c: (f"({c[0]})^{{2}}", c[1] ** 2)),
    )


EXPRESSIONS = st.recursive(leaves(), joined, max_leaves=8)
POLYNOMIALS = st.lists(
    st.tuples(st.integers(-5, 5).filter(bool), st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=5
)


def written(terms):
    return "+".join(f"({c})x^{{{a}}}y^{{{b}}}" for c, a, b in terms)


@RELAXED
@given(EXPRESSIONS)
def test_an_expression_equals_its_value(expression):
    text, value = expression
    assert decide(f"${text}$", f"\\boxed{{\\frac{{{value.numerator}}}{{{value.denominator}}}}}").outcome == "equal"


@RELAXED
@given(EXPRESSIONS, st.sampled_from([Fraction(1), Fraction(-1, 10**30), Fraction(1, 7)]))
def test_an_expression_never_equals_another_value(expression, change):
    text, value = expression
    other = value + change
    assert decide(f"${text}$", f"\\boxed{{\\frac{{{other.numerator}}}{{{other.denominator}}}}}").outcome == "different"


@RELAXED
@given(POLYNOMIALS, POLYNOMIALS, st.randoms(use_true_random=False))
def test_a_product_of_polynomials_equals_its_expansion_in_any_order(left, right, random):
    expanded = [(c * d, a + e, b + f) for c, a, b in left for d, e, f in right]
    random.shuffle(expanded)
    gold = f"$({written(left)})({written(right)})$"
    assert decide(gold, f"${written(expanded)}$").outcome == "equal"
    assert decide(gold, f"${written([*expanded, (1, 1, 0)])}$").outcome == "different"


@RELAXED
@given(st.integers(2, 5000), st.integers(2, 5000), st.integers(1, 40))
def test_roots_of_products_and_rationalised_roots_are_equal(a, b, c):
    assert decide(f"$\\sqrt{{{a * c * c}}}$", f"${c}\\sqrt{{{a}}}$").outcome == "equal"
    assert (
        decide(f"$\\frac{{\\sqrt{{{a}}}}}{{\\sqrt{{{b}}}}}$", f"$\\frac{{\\sqrt{{{a * b}}}}}{{{b}}}$").outcome
        == "equal"
    )
    assert decide(f"$\\sqrt{{{a}}}+1$", f"$\\sqrt{{{a + 1}}}+1$").outcome == "different"


@RELAXED
@given(st.integers(1, 12), st.integers(1, 12), st.sampled_from(["sin", "cos"]))
def test_functions_of_sums_follow_their_addition_theorems(a, b, name):
    other, sign = ("cos", "+") if name == "sin" else ("sin", "-")
    first, second = f"\\{name} {a}x", f"\\{other} {a}x"
    sum_form = f"{first} \\cos {b}y {sign} {second} \\sin {b}y"
    assert decide(f"$\\{name}({a}x+{b}y)$", f"${sum_form}$").outcome == "equal"
    assert decide(f"$\\{name}({a}x+{b}y)$", f"${first}+\\{name} {b}y$").outcome == "different"


@settings(deadline=None, max_examples=80)
@given(st.lists(st.sampled_from(PIECES), max_size=60).map("".join), st.sampled_from(["7", "$x^2+1$", "$[0,1)$", "Yes"]))
def test_any_mathematics_like_text_is_judged_without_an_exception(reply, gold):
    started = time.process_time()
    assert decide(gold, reply).outcome in ("equal", "different", "undecided")
    assert time.process_time() - started < 2.0


@settings(deadline=None, max_examples=50)
@given(st.text(max_size=300) | st.text(alphabet=string.printable, max_size=300))
def test_any_text_is_judged_without_an_exception(reply):
    assert decide("$\\frac{1}{7919}$", reply).outcome != "equal"


@settings(deadline=None, max_examples=15)
@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=4).map("".join), st.integers(1000, 10_000))
def test_ten_thousand_characters_of_anything_cost_less_than_two_seconds(piece, length):
    reply = (piece * length)[:length]
    started = time.process_time()
    for text in (reply, f"\\boxed{{{reply[:3900]}}}", f"\\boxed{{{reply[:3900]}"):
        assert decide("$7$", text).outcome in ("equal", "different", "undecided")
    assert time.process_time() - started < 6.0
