"""Which trajectories the report shows: some of each domain from the first and from the last rollouts."""

from collections import Counter

from burnish.core.types import Trajectory
from burnish.dashboard.data import TrajectoryView
from burnish.data import trajectory_files
from burnish.stages.session import Session

_PER_DOMAIN = 3


def trajectory_views(session: Session) -> list[TrajectoryView]:
    """A few trajectories of each domain, early and late; siblings are left out."""
    files = sorted((session.folder.path / "trajectories").glob("*.parquet"))
    views: list[TrajectoryView] = []
    for file, when in zip([files[0], files[-1]] if len(files) > 1 else files, ("early", "late"), strict=False):
        shown: Counter[str] = Counter()
        for trajectory in trajectory_files.read(file):
            name = _report_name(session, trajectory)
            if trajectory.member == 0 and shown[name] < _PER_DOMAIN:
                shown[name] += 1
                views.append(_view(session, trajectory, name, f"{file.name.partition('-step')[0]}, {when}"))
    return sorted(views, key=lambda view: view.domain)


def _report_name(session: Session, trajectory: Trajectory) -> str:
    domain = trajectory.task_id.rsplit("/", 3)[0]
    return next((s.entry.report_name for s in session.sources if s.domain.name == domain), domain)


def _view(session: Session, trajectory: Trajectory, name: str, stage: str) -> TrajectoryView:
    verdict = trajectory.verdict
    assert verdict is not None
    tokenizer = session.loaded.tokenizer

    def decode(token_ids: list[int]) -> str:
        return str(tokenizer.decode(token_ids))

    tokens = [
        (decode([token]), was_sampled, logprob)
        for token, was_sampled, logprob in zip(
            trajectory.token_ids, trajectory.was_sampled, trajectory.logprobs, strict=True
        )
    ]
    return TrajectoryView(
        domain=name, stage=stage, prompt=decode(list(trajectory.token_ids[: trajectory.prompt_length])), tokens=tokens,
        reply=trajectory.reply, score=verdict.score, parts=verdict.parts, evidence=verdict.evidence,
    )  # fmt: skip
