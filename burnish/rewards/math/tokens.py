r"""Tokens of cleaned mathematics, LaTeX and plain text alike.

Decisions: a run of letters is a function if it is the name of one, a word (of prose or of a unit) if it has four
letters or more or is a known short one, and else a product of variables. `\text{...}` holds mathematics if it is a
number, one letter or has signs, and words otherwise. Inside brackets a comma separates unless zeros
follow it; elsewhere `1,000` is one number.
"""

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from burnish.rewards import units
from burnish.rewards.math.limits import MOST_CHARACTERS, MOST_TOKENS, TooBig, Unreadable, spend

Kind = Literal["number", "symbol", "word", "function", "command", "sign", "end"]
MOST_DIGITS = 3_900

FUNCTIONS = frozenset(
    "sin cos tan cot sec csc arcsin arccos arctan asin acos atan sinh cosh tanh log ln lg exp sqrt cbrt abs max min"
    " gcd lcm floor ceil".split()
)
GREEK = frozenset(
    "alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota kappa lambda mu nu xi rho sigma tau upsilon"
    " phi varphi chi psi omega Gamma Delta Theta Lambda Xi Sigma Phi Psi Omega ell hbar".split()
)
SHORT_WORDS = frozenset(
    "yes no not none odd even true false and or if is the all pm am but nor per sq cubic undefined one two six"
    " ten".split()
)
STYLES = frozenset(
    "text textbf textit textrm mathrm mathbf mathit mathsf mbox boldsymbol bm mathcal rm bf it emph".split()
)
ACCENTS = frozenset("vec hat bar overline overrightarrow tilde underline dot widehat angle triangle".split())
SIGN_COMMANDS = {
    "times": "*", "cdot": "*", "ast": "*", "div": "/", "pm": "±", "mp": "∓", "le": "≤", "leq": "≤", "leqslant": "≤",
    "ge": "≥", "geq": "≥", "geqslant": "≥", "lt": "<", "gt": ">", "ne": "≠", "neq": "≠", "approx": "≈", "in": "∈",
    "cup": "∪", "cap": "∩", "setminus": "∖", "langle": "⟨", "rangle": "⟩", "lfloor": "⌊", "rfloor": "⌋", "lceil": "⌈",
    "rceil": "⌉", "vert": "|", "lvert": "|", "rvert": "|", "mid": "|", "degree": "°", "colon": ":", "lbrace": "\\{",
    "rbrace": "\\}", "lbrack": "[", "rbrack": "]", "implies": "⇒", "slash": "/", "land": "and", "lor": "or",
    "vee": "or",
    "wedge": "and",
    "cong": "≅", "equiv": "≡", "sim": "~",
}  # fmt: skip
NUMBER = re.compile(
    r"(?:[0-9]{1,3}(?:(?P<mark>[, ])[0-9]{3})(?:(?P=mark)[0-9]{3})*+(?![0-9])|[0-9]++)(?:\.(?![.])[0-9]*+)?|\.[0-9]++"
)
PLAIN_NUMBER = re.compile(r"[0-9]++(?:\.(?![.])[0-9]*+)?|\.[0-9]++")
EXPONENT = re.compile(r"[eE]([+-]?[0-9]{1,9})(?![0-9A-Za-z.])")
REPEATING = re.compile(r"\\(?:overline|bar|dot)\s*\{([0-9]{1,60})\}")
COMMAND = re.compile(r"\\([A-Za-z]+)\*?")
LETTERS = re.compile(r"[A-Za-z]+")
UNIT_QUOTIENT = re.compile(r"[A-Za-z]{1,12}(?:\^[23])?(?:/[A-Za-z]{1,12}(?:\^[23])?)*")
GROUP = re.compile(r"\s*\{([^{}]*)\}")
SIGNS = "+-*/^_()[]{}|!,;:=<>&%'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """One sign, number or name. `num_digits` is how many digits of a decimal are given, None for whole numbers."""

    kind: Kind
    text: str
    value: Fraction = Fraction(0)
    num_digits: int | None = None
    num_decimals: int = 0
    has_space: bool = False
    is_thousands: bool = False


END = Token(kind="end", text="the end")


def tokens(text: str, *, depth: int = 0) -> list[Token]:
    """Split cleaned text; `Unreadable` at what is no mathematics."""
    if len(text) > MOST_CHARACTERS:
        raise TooBig(f"an answer of {len(text)} characters; at most {MOST_CHARACTERS} are read")
    found: list[Token] = []
    position, num_open = 0, 0
    while position < len(text):
        has_space = text[position].isspace()
        if has_space:
            position += 1
            continue
        spend(3)
        more, position = _next(text, position, num_open + depth)
        if more and (more[0].text in "([⟨" or more[0].text == "\\{"):
            num_open += 1
        elif more and (more[0].text in ")]⟩" or more[0].text == "\\}"):
            num_open = max(0, num_open - 1)
        found += more
        if len(found) > MOST_TOKENS:
            raise TooBig(f"an answer of more than {MOST_TOKENS} signs")
    return found


def _next(text: str, position: int, depth: int) -> tuple[list[Token], int]:
    char = text[position]
    spaced = position > 0 and text[position - 1].isspace()
    if char.isdigit() or (char == "." and text[position + 1 : position + 2].isdigit()):
        return _number(text, position, depth, spaced)
    if char == "\\":
        return _command(text, position, depth, spaced)
    if match := LETTERS.match(text, position):
        return _letters(match.group(), spaced), match.end()
    if char in "¢€£₹¥":
        return [Token(kind="word", text=char, has_space=spaced)], position + 1
    for sign, plain in (("<=", "≤"), (">=", "≥"), ("!=", "≠"), ("==", "="), ("**", "^"), ("->", "→")):
        if text.startswith(sign, position) and not (
            sign == "!=" and spaced is False and position and text[position - 1].isdigit()
        ):
            return [_sign(plain, spaced)], position + 2
    if char in SIGNS:
        return [_sign(char, spaced)], position + 1
    raise Unreadable(f"{char!a} is no sign of mathematics that is read here")


def _sign(text: str, spaced: bool = False) -> Token:
    return Token(kind="sign", text=text, has_space=spaced)


def _number(text: str, position: int, depth: int, spaced: bool) -> tuple[list[Token], int]:
    match = NUMBER.match(text, position)
    assert match
    is_thousands = match["mark"] is not None
    if is_thousands and match["mark"] == "," and depth and not re.search(r",0[0-9]{2}", match.group()):
        match, is_thousands = PLAIN_NUMBER.match(text, position), False
    assert match
    digits, end = re.sub("[, ]", "", match.group()), match.end()
    if len(digits) > MOST_DIGITS:
        raise TooBig(f"a number of {len(digits)} digits; at most {MOST_DIGITS} are read")
    value, decimals = Fraction(digits.rstrip(".") or "0"), digits.partition(".")[2]
    if "." in digits and (repeated := REPEATING.match(text, end)):
        period = repeated[1]
        value += Fraction(int(period), (10 ** len(period) - 1) * 10 ** len(decimals))
        return [Token(kind="number", text=digits, value=value, has_space=spaced)], repeated.end()
    scale = EXPONENT.match(text, end)
    num_decimals = len(decimals)
    if scale:
        exponent, end = int(scale[1]), scale.end()
        if abs(exponent) > MOST_DIGITS:
            raise TooBig(f"a number with the exponent {exponent}; at most {MOST_DIGITS} are read")
        value, num_decimals = value * Fraction(10) ** exponent, num_decimals - exponent
    token = Token(
        kind="number",
        text=digits,
        value=value,
        num_digits=len(digits.replace(".", "").lstrip("0")) if decimals else None,
        num_decimals=num_decimals,
        has_space=spaced,
        is_thousands=is_thousands,
    )
    return [token], end


def _letters(run: str, spaced: bool) -> list[Token]:
    if run in FUNCTIONS:
        return [Token(kind="function", text=run, has_space=spaced)]
    if run == "pi":
        return [Token(kind="symbol", text="pi", has_space=spaced)]
    if run in GREEK:
        return [Token(kind="symbol", text=run, has_space=spaced)]
    if run.lower() in ("and", "or"):
        return [_sign(run.lower(), spaced)]
    is_word = len(run) > 3 or run.lower() in SHORT_WORDS or (len(run) > 1 and units.lookup(run) is not None)
    if is_word:
        return [Token(kind="word", text=run, has_space=spaced)]
    return [Token(kind="symbol", text=letter, has_space=spaced and k == 0) for k, letter in enumerate(run)]


def _command(text: str, position: int, depth: int, spaced: bool) -> tuple[list[Token], int]:
    match = COMMAND.match(text, position)
    if not match:
        two = text[position : position + 2]
        if two == "\\$":
            return [Token(kind="command", text="$", has_space=spaced)], position + 2
        if two == "\\%":
            return [_sign("%", spaced)], position + 2
        if two in ("\\{", "\\}", "\\\\"):
            return [_sign(two, spaced)], position + 2
        if two == "\\|":
            return [_sign("|", spaced)], position + 2
        raise Unreadable(f"{two!a} is no command that is read here")
    name, end = match[1], match.end()
    if name in STYLES:
        return _styled(text, end, depth, spaced)
    if name in ACCENTS or name == "mathbb":
        return _accented(name, text, end, spaced)
    if name in ("begin", "end"):
        group = GROUP.match(text, end)
        if not group:
            raise Unreadable(f"\\{name} without a name")
        after = (
            re.compile(r"\s*\{[lcr|]*\}").match(text, group.end()) if group[1] == "array" and name == "begin" else None
        )
        return [Token(kind="command", text=name, has_space=spaced)], after.end() if after else group.end()
    if name in SIGN_COMMANDS:
        return [_sign(SIGN_COMMANDS[name], spaced)], end
    if name in FUNCTIONS:
        return [Token(kind="function", text=name, has_space=spaced)], end
    if name in GREEK or name == "pi":
        return [Token(kind="symbol", text=name, has_space=spaced)], end
    if name in ("frac", "binom", "infty", "emptyset", "varnothing", "overline"):
        return [Token(kind="command", text=name, has_space=spaced)], end
    raise Unreadable(f"\\{name} is no command that is read here")


def _accented(name: str, text: str, end: int, spaced: bool) -> tuple[list[Token], int]:
    group = GROUP.match(text, end) or re.compile(r"\s*([A-Za-z]+)").match(text, end)
    if not group:
        raise Unreadable(f"\\{name} without a name")
    return [Token(kind="symbol", text=f"{name} {group[1].strip()}", has_space=spaced)], group.end()


def _styled(text: str, end: int, depth: int, spaced: bool) -> tuple[list[Token], int]:
    r"""What `\text{...}` or `\mathbf{...}` holds: mathematics, or words."""
    group = GROUP.match(text, end)
    if not group:
        return [], end
    inside = group[1].strip().strip(".,").strip() if group[1].strip() not in (",", ".") else group[1].strip()
    if not inside or inside == ".":
        return [], group.end()
    if re.fullmatch(r"[A-Za-z]", inside):
        is_unit = units.lookup(inside) is not None and spaced_after_number(text, end)
        return [Token(kind="word" if is_unit else "symbol", text=inside, has_space=spaced)], group.end()
    if re.fullmatch(r"[A-Za-z' .-]+", inside):
        return [token for word in re.findall(r"[A-Za-z']+", inside) for token in _word(word)], group.end()
    if UNIT_QUOTIENT.fullmatch(inside) and spaced_after_number(text, end):
        parts = re.findall(r"[A-Za-z]+|[0-9]|[/^]", inside)
        return [token for part in parts for token in _unit_part(part)], group.end()
    return tokens(inside, depth=depth + 1) if depth < 8 else [], group.end()


def spaced_after_number(text: str, end: int) -> bool:
    r"""Whether the command that ends here follows a value, so that `\text{ m}` is a unit and `\text{A}` a name."""
    before = text[: text.rfind("\\", 0, end)].rstrip()
    return bool(before) and (before[-1].isalnum() or before[-1] in ")}]/%")


def _unit_part(part: str) -> list[Token]:
    if part.isalpha():
        return [Token(kind="word", text=part)]
    return [_sign(part)] if part in "/^" else [Token(kind="number", text=part, value=Fraction(int(part)))]


def _word(word: str) -> list[Token]:
    if word.lower() in ("and", "or"):
        return [_sign(word.lower())]
    return [Token(kind="word", text=word, has_space=True)]
