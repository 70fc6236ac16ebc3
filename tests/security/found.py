"""The attacks in `attacks/GROUP/NAME.py`, found by themselves: add a file, and it is run.

A file's docstring says what it tries and what must happen. Three kinds, told apart by their constants:

- a **job** (no constant, or `LIMITS` and `ENDINGS`): its text is run in a box. It raises where it is held; if it comes
  to its end, it has escaped. `ENDINGS` are the endings that it may have, by default only `exited`;
  `given.json` beside it names a file of the host (`canary`) and an open port of the host.
- a **reply** (`REPLY`, `DOMAINS`): what a policy answers, given to each domain; `replies.py` has what they share. NAME
  stands for the asked function, GOLD for the right reply, OTHER for that of another task, PROMPT for the question. It
  scores no more than `HONEST`.
- a **result** (`READS`): its text is run in a place, whose file `READS` is then read by the host; the reader refuses.

Jobs and results are never run outside a box.
"""

import ast
from dataclasses import dataclass, field
from pathlib import Path
from runpy import run_path
from typing import Any, Literal

FOLDER = Path(__file__).parent / "attacks"
GROUPS = ("resources", "escape", "tampering", "interpreter", "leaks_and_judges")


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """One file."""

    name: str
    kind: Literal["job", "reply", "result"]
    source: str
    docstring: str
    constants: dict[str, Any] = field(default_factory=dict)


def attacks(kind: str | None = None) -> list[Attack]:
    """All attacks, or those of a kind, in the order of their names."""
    found = [_read(path) for path in sorted(FOLDER.rglob("*.py"))]
    return [attack for attack in found if kind in (None, attack.kind)]


def _read(path: Path) -> Attack:
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source)
    assigned = {node.targets[0].id: node.value for node in tree.body if _is_constant(node)}
    kind = "reply" if "REPLY" in assigned else "result" if "READS" in assigned else "job"
    if kind == "reply":
        constants = {name: value for name, value in run_path(str(path)).items() if name.isupper()}
    else:
        constants = {name: ast.literal_eval(value) for name, value in assigned.items() if name in KNOWN}
    return Attack(
        name=f"{path.parent.name}/{path.stem}",
        kind=kind,
        source=source,
        docstring=ast.get_docstring(tree) or "",
        constants=constants,
    )


KNOWN = ("LIMITS", "ENDINGS", "READS")


def _is_constant(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id.isupper()
