"""What replies in `attacks/` have in common, so that a file has its trick alone."""

USUAL_DOMAINS = ("code", "documents", "arithmetic", "rg:chain_sum", "number", "choice", "exact", "json")


def returning(value: str, after: str = "") -> str:
    """A reply to a code task whose function only returns a value; `after` stands before it, and runs when it loads."""
    return f"```python\n{after.lstrip()}def NAME(*a):\n    return {value}\n```"
