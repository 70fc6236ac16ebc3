"""A mutated objective does not pass: sign flips, swapped bounds, missing detach, wrong denominators, masks."""

import json
import os
import subprocess
import sys

import pytest

from tests.objectives.mutants import MUTANTS, ROOT, Mutant, mutated, source_of


def test_every_planted_mutation_still_changes_its_file():
    for mutant in MUTANTS:
        assert mutated(mutant) != source_of(mutant.file).read_text(encoding="utf-8")


def test_the_list_is_long_enough_and_has_no_mutant_twice():
    assert len(MUTANTS) >= 40
    assert len(set(MUTANTS)) == len(MUTANTS)


def survivors(every: int) -> list[Mutant]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    run = subprocess.run(
        [sys.executable, "-m", "tests.objectives.mutants", str(every)],
        cwd=ROOT, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    killers = [json.loads(line) for line in run.stdout.splitlines()]
    return [mutant for mutant, killer in zip(MUTANTS[::every], killers, strict=True) if killer is None]


def test_every_twelfth_mutant_dies():
    assert survivors(12) == []


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_mutant_dies():
    assert survivors(1) == []
