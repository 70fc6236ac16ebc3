"""Pairs of stored siblings for stage `preference`: of two replies to a prompt, the one that scored higher is preferred.

The replies to a prompt are put in order of their scores, and the best is paired with the worst, the second best with
the second worst, and so on, while the scores differ by `least_gap`: so no reply is in two pairs, and few easy successes
do not fill the data. Tokens are those that were sampled, whether of one turn or of several; given tokens, such as what
an environment answered, do not train. Read, checked and counted as stage `offline` does it; log-probabilities are not
used.
"""

from collections.abc import Sequence
from pathlib import Path

from burnish.core.errors import ConfigError
from burnish.core.types import Trajectory
from burnish.learner.packing import Row
from burnish.rollout.groups import Group, score_of
from burnish.stages import offline_data
from burnish.stages.histories import files_of
from burnish.stages.kept_data import keep_or_compare
from burnish.stages.preference_data import OTHER, PREFERRED
from burnish.stages.session import Session


def are_histories(data: str) -> bool:
    """Whether a path means stored replies, and not a file of pairs."""
    return data == "" or data.endswith(".parquet") or Path(data).is_dir()


def pairs_of(group: Group, least_gap: float) -> list[tuple[Trajectory, Trajectory]]:
    """The better and the worse reply of each pair, the widest gap first."""
    ordered = sorted(group.scored, key=lambda member: -score_of(member))
    half = len(ordered) // 2
    mirrored = zip(ordered[:half], reversed(ordered[len(ordered) - half :]), strict=True)
    return [(better, worse) for better, worse in mirrored if score_of(better) - score_of(worse) >= least_gap]


def open_pairs(session: Session, data: str, least_gap: float) -> list[list[Row]]:
    """The rows of each pair, the preferred one first; says on the console what became of the stored replies."""
    paths = files_of(session, data)
    keep_or_compare(session, {path.name: path for path in paths})
    vocabulary: int = session.loaded.model.config.get_text_config().vocab_size
    stored = offline_data.read(paths, session.means.chat, vocabulary, session.held_out_prompts())
    pairs = [pair for group in stored.groups for pair in pairs_of(group, least_gap)]
    if not pairs:
        raise ConfigError(
            f"{session.stage_name}: no two of {stored.counts.replies_trained} stored replies to one prompt differ by "
            f"least_gap = {least_gap:g} in their scores; lower it, or store more rollouts"
        )
    session.console.print(
        f"{session.stage_name}: {len(pairs)} pairs of siblings from {stored.counts.replies_stored} stored replies to "
        f"{len(stored.groups)} prompts that teach",
        style="dim",
    )
    return [_rows(pair) for pair in pairs]


def _rows(pair: Sequence[Trajectory]) -> list[Row]:
    return [
        Row(token_ids=member.token_ids, was_sampled=member.was_sampled, advantage=mark)
        for member, mark in zip(pair, (PREFERRED, OTHER), strict=True)
    ]
