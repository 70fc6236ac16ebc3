"""As `fix_line` and `fix_module`, with functions of the families that `code` holds out (for evaluation alone)."""

from random import Random

from burnish.domains.code_families_held_out import FAMILIES as HELD_OUT
from burnish.domains.code_families_held_out_more import FAMILIES as MORE_HELD_OUT
from burnish.domains.terminal.families import fix_line, fix_module
from burnish.domains.terminal.planted import MODULES, Module, check_of, fault_of, files_of, plant
from burnish.domains.terminal.spec import TerminalTask

LEVELS = (0, 1, 2, 3)
FAMILIES = HELD_OUT + MORE_HELD_OUT
ONE_LINE = tuple(family for family in FAMILIES if "\n" not in family.body)


def make(rng: Random, level: int) -> TerminalTask:
    """Draw a function that nothing in training has."""
    if level == 3:
        return fix_module.task(rng, level, "fix_unseen", FAMILIES)
    planted = plant(rng, ONE_LINE)
    module = Module(name=rng.choice(MODULES), parts=(planted,))
    return TerminalTask(
        family="fix_unseen",
        level=level,
        instruction=fix_line.instruction(rng, module, planted, level),
        files=files_of([module], shows_tests=True),
        protected=(module.test_file,),
        check=check_of([module]),
        fault=fault_of([module]),
        oracle=fix_line.oracle(module, level),
        max_steps=8,
        source="fix_unseen",
        tags=(planted.kind,),
    )
