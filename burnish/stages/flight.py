"""What a stage tells the flight recorder before it trains."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from burnish.core.types import Trajectory
from burnish.stages.session import Session


@contextmanager
def flight_record(session: Session, step: int, members: Sequence[Trajectory]) -> Iterator[None]:
    """Keep the step's rollouts in memory, in case an error ends the run within or soon after."""
    session.flight.note(session.stage_name, step, session.policy.version, members)
    yield
