"""What the gates of a run did to its weights, done again from the ledger's decisions; nothing is evaluated."""

from pathlib import Path

from burnish.learner.ranked_policy import AnyPolicy
from burnish.stages.curriculum import Course
from burnish.stages.guard import VERSIONS
from burnish.stages.training import Saved


class GatesAgain:
    """Keeps what a checkpoint would, of the stage's beginning and of each promotion: a roll-back may go there."""

    def __init__(self, policy: AnyPolicy, saved: Saved | None, course: Course, folder: Path, *, averages: bool) -> None:
        self._policy, self._saved, self._course, self._folder = policy, saved or policy, course, folder
        self._averages = averages
        if any(decided["kind"] == "roll_back" for _, decided in course.gates(1 << 40)):
            self._keep(0)

    def after(self, step: int) -> bool:
        """Do what the gate after so many steps did, if there was one; whether other weights, or the same by another
        version, are in place now."""
        decided = self._course.gate(step)
        if decided is None:
            return False
        version = self._policy.version
        if decided["kind"] == "roll_back":
            self._go_back(step)
        elif decided["kind"] == "promote":
            self._keep(step)
        if decided["kind"] != "roll_back" and not self._averages:
            return False
        self._policy.renumber(version + VERSIONS)
        return True

    def finish(self, num_steps: int) -> None:
        """Hold the last gate, and go back to what the stage handed on."""
        self.after(num_steps)
        if self._course.gate(num_steps) and self._course.promoted_step(num_steps) != num_steps:
            self._go_back(num_steps)

    def _go_back(self, step: int) -> None:
        self._saved.load(self._folder / f"{self._course.promoted_step(step)}")

    def _keep(self, step: int) -> None:
        folder = self._folder / f"{step}"
        folder.mkdir()
        self._saved.save(folder, with_optimiser=True)
