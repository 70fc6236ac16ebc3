"""Users' patterns on replies, in linear time: the one door to RE2.

Decisions: Python's `re` backtracks, and a pattern such as `(a+)+b` on a reply of a's would hang a run. RE2 has
no look-around and no back-references; a pattern that needs them is refused when tasks are loaded.
"""

import re2

MAX_MEMORY = 8 << 20


def fault(pattern: str) -> str:
    """Why a pattern cannot be used; empty if it can."""
    try:
        re2.compile(pattern, _options())
    except re2.error as error:
        detail = error.args[0] if error.args else ""
        reason = detail.decode("utf-8", "replace") if isinstance(detail, bytes) else str(detail)
        return f"pattern {pattern!r} is not valid RE2: {reason} (look-around and back-references are not supported)"
    return ""


def matches(pattern: str, text: str, *, whole: bool) -> bool:
    """Whether the pattern matches the whole text, or some of it."""
    compiled = re2.compile(pattern, _options())
    clean = text.encode("utf-8", "replace").decode("utf-8")
    return (compiled.fullmatch(clean) if whole else compiled.search(clean)) is not None


def _options() -> re2.Options:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = MAX_MEMORY
    return options
