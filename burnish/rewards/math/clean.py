r"""Bring the ways of writing mathematics into the one that `tokens` reads: ASCII, plain operators, known commands.

Before NFKC, which would make `2½` into `21/2` and `x²` into `x2`, vulgar fractions, raised and lowered characters are
rewritten. Then NFKC, digits of all scripts to ASCII, mathematical signs to LaTeX commands or ASCII, and
spacing, sizing and styling commands away.
"""

import re
import unicodedata

from burnish.rewards import composed

VULGAR = {
    "½": "1/2", "⅓": "1/3", "⅔": "2/3", "¼": "1/4", "¾": "3/4", "⅕": "1/5", "⅖": "2/5", "⅗": "3/5", "⅘": "4/5",
    "⅙": "1/6", "⅚": "5/6", "⅐": "1/7", "⅛": "1/8", "⅜": "3/8", "⅝": "5/8", "⅞": "7/8", "⅑": "1/9", "⅒": "1/10",
}  # fmt: skip
RAISED = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁽⁾ⁿⁱ", "0123456789+-()ni", strict=True))
LOWERED = dict(zip("₀₁₂₃₄₅₆₇₈₉₊₋₍₎", "0123456789+-()", strict=True))
SIGNS = str.maketrans(
    {
        **dict.fromkeys("−–—‐‑‒﹣", "-"),
        **dict.fromkeys("×⋅·∙∗⁎", "*"),
        **dict.fromkeys("÷⁄∕", "/"),
        **{"≤": r" \le ", "≥": r" \ge ", "⩽": r" \le ", "⩾": r" \ge ", "≠": r" \ne ", "≈": r" \approx "},
        **{"∞": r" \infty ", "π": r" \pi ", "√": " sqrt ", "∪": r" \cup ", "∩": r" \cap ", "∈": r" \in "},
        **{"±": r" \pm ", "∓": r" \mp ", "∅": r" \emptyset ", "°": r"^\circ ", "º": r"^\circ ", "∖": r" \setminus "},
        **{"⌊": r" \lfloor ", "⌋": r" \rfloor ", "⌈": r" \lceil ", "⌉": r" \rceil ", "⟨": r" \langle "},
        **{"⟩": r" \rangle ", "’": "'", "′": "'", "“": '"', "”": '"', "∶": ":", "∣": "|", "ℝ": r"\mathbb{R}"},
        **{"ℤ": r"\mathbb{Z}", "ℚ": r"\mathbb{Q}", "ℕ": r"\mathbb{N}", "ℂ": r"\mathbb{C}"},
    }
)
GREEK = str.maketrans(
    {char: f" \\{unicodedata.name(char).split()[-1].lower()} " for char in "αβγδεζηθικλμνξρστυφχψωΓΔΘΛΞΣΦΨΩ"}
)
LONE_DOLLAR = re.compile(r"(?<![\\$])\$(?=\s?[0-9.])")
REWRITES = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in [
        (r"\\boxed\b|\\fbox\b", " "),
        (r"^\s*(?:[-=]>|[→⇒⟹➜]|\\(?:to|(?:[Ll]ong)?[rR]ightarrow)(?![A-Za-z]))", " "),
        (r"\{:\}", ":"),
        (r"\\(?:left|right)\s*\.", " "),
        (r"\\(?:left|right|[bB]igg?[lrm]?)(?![A-Za-z])", ""),
        (r"(?<!\\)\\!|\\(?:displaystyle|textstyle|limits|nolimits|hfill|noindent)(?![A-Za-z])", ""),
        (r"(?<=[0-9])(?:\{,\}|\\,|\\ )(?=[0-9]{3}(?![0-9]))", ","),
        (r"(?<!\\)\\[,;:> ]|~|\\(?:quad|qquad|thinspace|hspace\{[^{}]{0,20}\})(?![A-Za-z])", " "),
        (r"\\\(|\\\)|\\\[|\\\]|(?<!\\)\$\$?", " "),
        (r"\\\\?\$|[$]", r" \\$ "),
        (r"\^\s*\{?\s*\\(?:circ|degree)(?![A-Za-z])\s*\}?|\\degrees?(?![A-Za-z])", r" \\degree "),
        (r"(?<![A-Za-z])([apAP])\.\s?[mM](?:\.|(?![A-Za-z]))", r"\1m"),
        (r"\\[dtc]frac(?![A-Za-z])", r"\\frac"),
        (r"\\[dt]binom(?![A-Za-z])", r"\\binom"),
        (r"\\(frac|binom|sqrt)\s*([0-9])", r"\\\1{\2}"),
        (r"\\(frac|binom)\s*(\{[^{}]*\})\s*([0-9])", r"\\\1\2{\3}"),
        (r"\\log_([0-9])(?=[0-9])", r"\\log_{\1} "),
        (r"\\operatorname\*?\s*\{([A-Za-z]{1,12})\}", r" \\\1 "),
        (r"(?<![A-Za-z\\])[iI]nfinity(?![A-Za-z])", r" \\infty "),
        (r"(?<![\w)\]}!])\*\*|\*\*(?![\s]*[\w(\[{\\.+-])", " "),
    ]
)


def cleaned(text: str) -> str:
    """The text in the one way of writing; its length is capped by who calls."""
    if text.replace("$$", "").replace("\\$", "").count("$") == 1:  # which opens and closes no formula
        text = LONE_DOLLAR.sub(r"\\$", text)
    for char, plain in VULGAR.items():
        if char in text:
            text = re.sub(rf"(?<=[0-9])\s?{char}", f" {plain} ", text).replace(char, f"({plain})")
    text = _scripts(text, RAISED, "^")
    text = _scripts(text, LOWERED, "_")
    text = _decimal_digits(composed.nfkc(text.translate(SIGNS))).translate(SIGNS).translate(GREEK)
    for pattern, replacement in REWRITES:
        text = pattern.sub(replacement, text)
    return _without_ends(" ".join(text.split()))


def _scripts(text: str, table: dict[str, str], mark: str) -> str:
    inside = "".join(re.escape(char) for char in table)
    return re.sub(f"[{inside}]+", lambda match: f"{mark}{{{''.join(table[c] for c in match.group())}}}", text)


def _decimal_digits(text: str) -> str:
    if text.isascii():
        return text
    return "".join(str(unicodedata.decimal(c)) if not c.isascii() and c.isdecimal() else c for c in text)


def _without_ends(text: str) -> str:
    while text and (text[0] in '*`_"' or text[-1] in '.,;:*`_"'):
        text = (text[:-1] if text[-1] in '.,;:*`_"' else text[1:]).strip()
    return text
