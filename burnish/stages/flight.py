"""The flight record: what a run that stopped on a broken invariant leaves for whoever looks into it."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from burnish.core.errors import InvariantError
from burnish.core.run_folder import write_whole
from burnish.core.types import Trajectory
from burnish.stages.session import Session


@contextmanager
def flight_record(session: Session, step: int, members: Sequence[Trajectory]) -> Iterator[None]:
    """On a breach inside the block, keep the step's rollouts in a file and name it in the error."""
    try:
        yield
    except InvariantError as breach:
        path = session.folder.path / f"flight-{session.stage_name}-{step}.json"
        record = {"breach": str(breach), "step": step, "version": session.policy.version}
        rows = [json.loads(member.to_json()) for member in members]
        write_whole(path, lambda temporary: temporary.write_text(json.dumps(record | {"rollouts": rows}, indent=1)))
        raise InvariantError(f"{breach} (step {step} of {session.stage_name}; its rollouts are in {path})") from None
