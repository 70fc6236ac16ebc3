r"""What of a reply is the answer to a reasoning-gym question, and which answers may reach a scorer.

**Extraction.** After the last line that begins with `Answer:` (bold or not) everything is the answer. Without
such a line it is the last line that is not blank, or the whole reply where the reference answer has several
lines or is unknown. White space around it goes; nothing else does: what stands beside an answer is part of it.

**Shape.** Scorers were measured, and some are too kind. An answer is wrong before any scorer sees it if
- it is empty, or longer than `LONGEST`;
- its generator has a pattern in `PATTERNS` that it does not match as a whole. All scorers that evaluate the answer as
  Python have one; the patterns admit numbers, operators, brackets, single letters and named
  functions of calculus, and no dots, quotes, underscores or other names, so nothing can be reached but arithmetic;
- its generator is in `LIKENESS` and it differs there from the reference: another number of words or characters,
  other numbers, a variable of its own.

Scorers that were found to pay for more than the answer, and what stops it: a second root after a comma and a word
(polynomial_equations), anything behind a hash sign (pool_matrix), text around a move (tower_of_hanoi), numbers
behind the turns (rubiks_cube), two colours of one vertex (graph_color); the rest of `PATTERNS` and `LIKENESS` likewise.

`EXCLUDED` generators are refused with the reason. Covered: reasoning-gym 0.1.25, all generators.
"""

import re
from collections.abc import Callable, Mapping
from fractions import Fraction

from burnish.rewards.thinking import after_thinking

LONGEST = 10_000

HASH_SEED = "equal seeds do not give equal tasks: it iterates over sets of strings"
EXCLUDED: Mapping[str, str] = {
    "boxnet": "it gives no reference answer, so nothing shows that its scorer ever pays in full",
    "codeio": "equal seeds do not give equal tasks: it runs sample programs as it goes, outside any sandbox",
    "coin_flip": "its scorer pays in full for any prefix of the number, such as 0",
    "composite": "it mixes other generators; write one [[tasks]] entry for each instead",
    "game_of_life_halting": "its scorer pays in full for any text",
    "isomorphic_strings": HASH_SEED,
    "knight_swap": HASH_SEED,
    "list_functions": "equal seeds do not give equal tasks: it draws from the global random generator",
    "polynomial_multiplication": HASH_SEED,
    "propositional_logic": "its scorer pays in full for a premise that is repeated",
    "puzzle24": "its scorer pays in full for any four numbers that make 24, not only the given ones",
    "ransom_note": HASH_SEED,
    "rush_hour": "it gives no reference answer, so nothing shows that its scorer ever pays in full",
    "word_ladder": HASH_SEED,
}

_FUNCTION = r"(?:a?(?:sin|cos|tan)h?|exp|log|ln|sqrt|sec|csc|cot|pi)"
_DECIMAL = r"[0-9]{1,12}(?:\.[0-9]{1,12})?(?![0-9.A-Za-z(])"
_EXPRESSION = rf"(?:{_FUNCTION}(?![A-Za-z0-9])|[A-Za-z](?![A-Za-z0-9(])|{_DECIMAL}|[ +\-*/()])++"
_CLAUSE = r"[A-Za-z]++ is an? [a-z]++"
_MOVE = r"Move disk [0-9]{1,3} from Peg [0-9]{1,3} to Peg [0-9]{1,3}"
_TURN = r"[UDLRFBMESudlrfbxyz]w?2?'?"
_NUMBER = r"-?[0-9]{1,30}(?:\.[0-9]{1,30})?"
PATTERNS: Mapping[str, re.Pattern[str]] = {
    name: re.compile(pattern)
    for name, pattern in {
        "advanced_geometry": rf"{_NUMBER}°?|\({_NUMBER}, ?{_NUMBER}\)",
        "binary_matrix": r"[0-9 \n]+",
        "complex_arithmetic": rf"{_NUMBER}(?: ?[+-] ?{_NUMBER[2:]}i)?|{_NUMBER}i",
        "countdown": r"(?:[0-9+\-() ]|\*(?!\*)|/(?!/))++",
        "fraction_simplification": r"\$?-?(?:[0-9]{1,30} ?/ ?[0-9]{1,30}|\\d?frac\{[0-9]{1,30}\}\{[0-9]{1,30}\})\$?",
        "gsm_symbolic": r"[0-9]{1,30}(?:\.[0-9]{1,30})?",
        "intermediate_integration": _EXPRESSION,
        "kakurasu": r"[01 \n]+",
        "knights_knaves": rf"{_CLAUSE}(?:(?:, and |, | and ){_CLAUSE})*+\.?",
        "n_queens": r"[Q_ \n]+",
        "polynomial_equations": rf"{_NUMBER}(?:, ?{_NUMBER})*+",
        "pool_matrix": r"[0-9 .\n-]+",
        "quantum_lock": r"[A-C](?:(?: ?(?:→|->|,) ?| ?)[A-C])*+",
        "rubiks_cube": rf"{_TURN}(?:[ \n]+{_TURN})*+",
        "simple_integration": _EXPRESSION,
        "sokoban": r"[UDLRudlr]+",
        "spiral_matrix": r"[0-9 ]+",
        "string_insertion": r"[A-E]+",
        "survo": r"[0-9 \n-]+",
        "tower_of_hanoi": rf"{_MOVE}(?:[ \t]*+\n[ \t]*+{_MOVE})*+",
    }.items()
}
EVALUATED = frozenset(
    "binary_matrix countdown intermediate_integration n_queens"
    " simple_integration spiral_matrix string_insertion".split()
)
"""Generators whose scorer runs the answer as Python."""
CUE = re.compile(r"[\s*#>_]{0,9}answer[*_ ]{0,3}:[*_]{0,3}", re.IGNORECASE)
WORD = re.compile(r"[^\s,]+")
NUMBER = re.compile(_NUMBER)
LETTER = re.compile(r"(?<![A-Za-z])[A-Za-z](?![A-Za-z])")


def extract(reply: str, *, is_one_line: bool) -> str:
    """Take the answer out of a reply; empty where there is none."""
    reply = after_thinking(reply) or ""
    lines = reply.split("\n")
    for position in range(len(lines) - 1, -1, -1):
        if cue := CUE.match(lines[position]):
            return "\n".join([lines[position][cue.end() :], *lines[position + 1 :]]).strip()
    if not is_one_line:
        return reply.strip()
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def complaint(generator: str, reference: str | None, answer: str) -> str:
    """Why an answer is wrong whatever the scorer says; empty if the scorer is to decide."""
    if not answer:
        return "no answer in the reply"
    if len(answer) > LONGEST:
        return f"an answer of {len(answer)} characters; at most {LONGEST} are read"
    if generator in PATTERNS and not PATTERNS[generator].fullmatch(answer):
        return "the answer has another form than answers to this question have"
    if reference is None:
        return ""
    if generator in LIKENESS and not LIKENESS[generator](reference, answer):
        return "the answer differs from the reference in what it is made of"
    return ""


def _has_same_words(reference: str, answer: str) -> bool:
    return len(WORD.findall(answer)) == len(WORD.findall(reference))


def _has_same_length(reference: str, answer: str) -> bool:
    return len(answer) == len(reference)


def _has_same_numbers(reference: str, answer: str) -> bool:
    return sorted(map(Fraction, NUMBER.findall(answer))) == sorted(map(Fraction, NUMBER.findall(reference)))


def _has_as_many_numbers(reference: str, answer: str) -> bool:
    return len(NUMBER.findall(answer)) == len(NUMBER.findall(reference))


def _has_same_letters(reference: str, answer: str) -> bool:
    return set(LETTER.findall(answer)) <= set(LETTER.findall(reference))


LIKENESS: Mapping[str, Callable[[str, str], bool]] = {
    "cryptarithm": _has_same_words,
    "graph_color": _has_as_many_numbers,
    "intermediate_integration": _has_same_letters,
    "knights_knaves": _has_same_words,
    "letter_jumble": _has_same_words,
    "number_sorting": _has_same_numbers,
    "simple_integration": _has_same_letters,
    "spell_backward": _has_same_length,
    "time_intervals": _has_same_words,
    "word_sorting": _has_same_words,
}
