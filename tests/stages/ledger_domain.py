"""A domain whose scores a script says by what the run's ledger has decided, so that a kill does not shift them.

Of "1101" the evaluation before the first step is worth 1, that of the first gate 1, of the second 0, of the third 1.
**State**: a number. **Action**: any reply. **Reward**: what is written there.
"""

import sqlite3
from dataclasses import dataclass

from burnish.core.types import Task, Verdict
from burnish.domains import Options
from burnish.sandbox import Box
from tests.stages.fading_domain import NUM, Fading


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided(Fading):
    """The tasks of the other one."""

    ledger: str
    name: str = "tests.stages.ledger_domain"

    async def verify(self, task: Task, reply: str, box: Box) -> Verdict:
        with sqlite3.connect(f"file:{self.ledger}?mode=ro", uri=True) as db:
            (num_first,) = db.execute("SELECT COUNT(*) FROM guarded WHERE step = 0").fetchone()
            (num_gates,) = db.execute("SELECT COUNT(*) FROM course WHERE kind = 'gate'").fetchone()
        return Verdict.scored(float(self.script[1 + num_gates if num_first >= NUM else 0]))


def load(argument: str, options: Options) -> Decided:
    return Decided(ledger=str(options["ledger"]), script=str(options["script"]))
