"""Stored trajectories for stage `offline`: found, read, checked, and grouped by prompt.

A group is all scored replies to one prompt, in whichever files and from whichever weights they are: each reply keeps
the log-probabilities of the weights that drew it. Left out, and counted, are replies without a score, prompts that
are held out here, and prompts whose replies scored alike, which teach nothing where they are compared. A reply whose
tokens do not read, by this run's tokenizer, as the text that was stored is of another vocabulary, and refused; so is
one that was sampled at another temperature than the learner is told, where the run that it lies in says so. Not
covered: files larger than memory.
"""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from burnish.chat.template import Chat
from burnish.core.errors import ConfigError
from burnish.core.recipe import Recipe
from burnish.core.run_folder import kept_recipe
from burnish.core.types import Trajectory
from burnish.data import trajectory_files
from burnish.rollout.groups import Group

_OF_A_STAGE = re.compile(r"(\d+)-(?:rl|distill|rejection)-(?:step|tries)-\d+")


class Counts(NamedTuple):
    """What became of the stored replies."""

    replies_stored: int
    replies_without_score: int
    replies_held_out: int
    replies_without_signal: int
    replies_trained: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """The groups that train, in the order of their prompts' hashes, and what was left out."""

    groups: Sequence[Group]
    counts: Counts


def files(place: Path) -> list[Path]:
    """The files that a path means: itself, those of a folder, or those of a run folder."""
    inner = place / "trajectories"
    folder = inner if inner.is_dir() else place
    found = sorted(folder.glob("*.parquet")) if folder.is_dir() else [folder]
    if not found or not all(path.is_file() for path in found):
        raise ConfigError(
            f"no trajectories in {str(place)!r}; give a Parquet file that stage 'rl' wrote, a folder of them, or the "
            "folder of a run; leave data out to use this run's own, and put a stage 'rl' before"
        )
    return found


def check_temperature(paths: Sequence[Path], temperature: float) -> None:
    """`ConfigError` if a file lies in a run whose recipe sampled it at another temperature."""
    for path in paths:
        match, run = _OF_A_STAGE.match(path.name), path.resolve().parent.parent
        if match is None or not (run / "recipe.resolved.json").exists():
            continue
        sampled_at = _temperature(kept_recipe(run), int(match[1]))
        if sampled_at != temperature:
            raise ConfigError(
                f"the replies in {str(path)!r} were sampled at temperature {sampled_at}, and their log-probabilities "
                f"are of that; stage 'offline' has {temperature}: set its temperature to {sampled_at}"
            )


def _temperature(recipe: Recipe, position: int) -> float:
    return float(recipe.stages[position].get("temperature", 1.0))


def read(
    paths: Sequence[Path], chat: Chat, vocabulary: int, held_out: frozenset[str], *, needs_signal: bool = True
) -> Stored:
    """Read, check and group; groups of equal scores stay where nothing compares them."""
    members = [member for path in paths for member in _checked(path, chat, vocabulary)]
    scored = [member for member in members if _is_scored(member)]
    allowed = [m for m in scored if m.prompt_hash not in held_out]
    groups = [Group(key, "", tuple(of_prompt)) for key, of_prompt in sorted(_by_prompt(allowed).items())]
    kept = [group for group in groups if group.has_signal or not needs_signal]
    num_kept = sum(len(group.members) for group in kept)
    counts = Counts(
        replies_stored=len(members),
        replies_without_score=len(members) - len(scored),
        replies_held_out=len(scored) - len(allowed),
        replies_without_signal=len(allowed) - num_kept,
        replies_trained=num_kept,
    )
    if not kept:
        raise ConfigError(
            f"nothing to learn from the {len(members)} stored replies ({_told(counts)}); a prompt teaches if it is not "
            "held out and two of its replies scored differently: store more rollouts, or easier (or harder) tasks"
        )
    return Stored(groups=kept, counts=counts)


def check_logprobs(groups: Sequence[Group], who: str) -> None:
    """`ConfigError` where nobody has noted how likely the replies were: no sampler is certain of every token."""
    members = [member for group in groups for member in group.members]
    if not any(logprob for member in members for logprob in member.logprobs):
        raise ConfigError(
            f"{who} reads the log-probabilities of stored replies, and all of the {len(members)} stored ones are 0, as "
            "if none had been noted; learn from them by stage 'offline' with objective 'awr', which reads none"
        )


def _by_prompt(members: Sequence[Trajectory]) -> Mapping[str, list[Trajectory]]:
    groups: defaultdict[str, list[Trajectory]] = defaultdict(list)
    for member in members:
        groups[member.prompt_hash].append(member)
    return groups


def _checked(path: Path, chat: Chat, vocabulary: int) -> list[Trajectory]:
    members = trajectory_files.read(path)
    for number, member in enumerate(members):
        fault = _fault(member, chat, vocabulary) if _is_scored(member) else ""
        if fault:
            raise ConfigError(f"{path}: row {number} (group {member.group_id}, member {member.member}) {fault}")
    return members


def _is_scored(member: Trajectory) -> bool:
    """Whether it can train at all; an episode whose world was never made has not even a token."""
    return member.verdict is not None and member.verdict.kind == "scored"


def _fault(member: Trajectory, chat: Chat, vocabulary: int) -> str:
    """Why a trajectory cannot train here; empty if it can."""
    chosen = [i for i, was_sampled in enumerate(member.was_sampled) if was_sampled]
    if not chosen or chosen[0] == 0:
        return "has no sampled token behind a prompt; leave it out"
    if not all(-1e4 < member.logprobs[i] <= 1e-6 for i in chosen):
        return "has a sampled token without a proper log-probability; sample it again by stage 'rl'"
    if not all(0 <= token < vocabulary for token in member.token_ids):
        return f"has tokens beyond this model's vocabulary of {vocabulary}; name the model that sampled it"
    is_one_turn = chosen == list(range(chosen[0], len(member.token_ids)))
    text = chat.decode([member.token_ids[i] for i in chosen])
    if is_one_turn and member.stop_reason != "stop_string" and text != member.reply:
        return (
            f"reads as {text[:40]!r} by this model's tokenizer and was stored as {member.reply[:40]!r}; name the model "
            "that sampled it"
        )
    for number, step in enumerate(member.steps):
        is_own = any(member.was_sampled[step.first : step.end])
        turn = chat.decode(member.token_ids[step.first : step.end]) if is_own else step.reply
        if not turn.startswith(step.reply):  # it is longer where a stop string was cut off
            return (
                f"reads in turn {number} as {turn[:40]!r} by this model's tokenizer and was stored as "
                f"{step.reply[:40]!r}; name the model that sampled it"
            )
    return ""


def _told(counts: Counts) -> str:
    return ", ".join(
        f"{value} {name.removeprefix('replies_').replace('_', ' ')}" for name, value in counts._asdict().items()
    )
