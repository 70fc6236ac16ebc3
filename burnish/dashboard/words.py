"""How numbers are written for people."""


def score(value: float) -> str:
    """A score to three places."""
    return f"{value:.3f}"


def change(value: float) -> str:
    """A signed difference to three places, with a true minus."""
    return f"{value:+.3f}".replace("-", "\N{MINUS SIGN}")


def p_value(p: float) -> str:
    """A p-value to two digits; very small ones as a bound."""
    return "< 0.0001" if p < 1e-4 else f"{p:.2g}" if p < 0.1 else f"{p:.2f}"


def seconds(value: float) -> str:
    """A duration in the two largest fitting units."""
    if value < 59.95:
        return f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def count(value: float) -> str:
    """A whole number with thin spaces between thousands."""
    return f"{round(value):,}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def megabytes(value: float) -> str:
    """A size in MB, or in GiB from 1024 on."""
    return f"{value / 1024:.1f} GiB" if value >= 1024 else f"{value:.0f} MiB"


def share(part: float, total: float) -> str:
    """A percentage; "< 1 %" instead of a rounded 0."""
    if total <= 0:
        return "–"
    return "< 1 %" if 0 < part < total / 100 else f"{100 * part / total:.0f} %"
