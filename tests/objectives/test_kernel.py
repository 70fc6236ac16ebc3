"""Every objective and part against its golden numbers and hand-worked tables (`kernel/`)."""

import pytest

from tests.objectives.kernel import distribution, parts, policy, preference, update

CHECKS = [
    (module, name)
    for module in (policy, parts, preference, distribution, update)
    for name in vars(module)
    if name.startswith("check_")
]


@pytest.mark.parametrize(("module", "name"), CHECKS, ids=[name.removeprefix("check_") for _, name in CHECKS])
def test_check(module, name):
    vars(module)[name]()
