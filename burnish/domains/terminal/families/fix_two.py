"""Two faults: in two functions of one module (level 4), or in two modules (5)."""

from random import Random

from burnish.domains.terminal.families.fix_module import TEST, draw_module, mend, shown_failing
from burnish.domains.terminal.planted import MODULES, TRAINED, check_of, fault_of, files_of
from burnish.domains.terminal.spec import TerminalTask

LEVELS = (4, 5)


def make(rng: Random, level: int) -> TerminalTask:
    """Draw two faults."""
    num_faults = [2] if level == 4 else [1, 1]
    names = rng.sample(MODULES, len(num_faults))
    modules = [draw_module(rng, name, 3, num, TRAINED) for name, num in zip(names, num_faults, strict=True)]
    asked = rng.choice(("{0} is not the only test that fails.", "The tests find more than one bug, {0} among them."))
    return TerminalTask(
        family="fix_two",
        level=level,
        instruction=f"{asked.format(shown_failing(modules))} Fix the code, not the tests. Run them with `{TEST}`.",
        files=files_of(modules, shows_tests=True),
        protected=("test_*.py",),
        check=check_of(modules),
        fault=fault_of(modules),
        oracle=mend(modules, TEST),
        max_steps=16,
        source="fix_two",
        tags=tuple(planted.kind for module in modules for planted in module.planted),
    )
