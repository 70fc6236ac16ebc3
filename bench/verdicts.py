"""What the verdict cache saves: unit-test verdicts cold, warm, and with 30 % of programs rewritten but equal.

`python bench/verdicts.py [NUM]` (default 1000). Replies are right and wrong answers to tasks of the domain `code`,
judged two at a time in the sandbox. Rewritten: the parameter renamed, a docstring and a comment added. Ratios are of
one run, so that they mean something on a busy machine too; the cold time itself does not.
"""

import asyncio
import io
import sys
import tempfile
import time
import tokenize
from dataclasses import dataclass
from pathlib import Path

from burnish.core.types import Task, Verdict
from burnish.domains import Domain, open_domain
from burnish.rewards.verdict_cache import open_cache
from burnish.rollout.verification import Sampling, Verification
from burnish.rollout.verification_report import DomainReport
from burnish.sandbox import Box, open_box

NUM_AT_ONCE = 2
REWRITTEN_SHARE = 0.3
RECHECK_SHARE = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """One round over all replies."""

    wall_s: float
    verdicts: list[Verdict]
    report: DomainReport


def main(num: int) -> None:
    """Run all rounds and print their ratios."""
    domain = open_domain("code")
    pairs = [_pair(domain, number) for number in range(num)]
    rewritten = [(task, _rewrite(reply) if _is_rewritten(i) else reply) for i, (task, reply) in enumerate(pairs)]
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_rounds(domain, pairs, rewritten, Path(folder) / "verdicts.sqlite"))


async def _rounds(
    domain: Domain, pairs: list[tuple[Task, str]], rewritten: list[tuple[Task, str]], place: Path
) -> None:
    async with open_box(num_workers=NUM_AT_ONCE) as box:
        cold = await _judge(domain, pairs, box, place)
        _say("cold", cold, cold)
        changed = await _judge(domain, rewritten, box, place)
        _say(f"{REWRITTEN_SHARE:.0%} rewritten", changed, cold)
        warm = await _judge(domain, pairs, box, place)
        _say("warm", warm, cold)
        checked = await _judge(domain, pairs, box, place, Sampling(seed=1, recheck_share=RECHECK_SHARE))
        _say(f"warm, {RECHECK_SHARE:.0%} found again", checked, cold)


async def _judge(
    domain: Domain, pairs: list[tuple[Task, str]], box: Box, place: Path, sampling: Sampling | None = None
) -> Pass:
    cache = open_cache(str(place))
    verification = Verification(box, num_at_once=NUM_AT_ONCE, cache=cache, sampling=sampling)
    await verification.verdict(domain, *_pair(domain, -1))  # what a process pays once: versions, first fork server
    verification.take_report()
    started = time.perf_counter()
    verdicts = await asyncio.gather(*(verification.verdict(domain, task, reply) for task, reply in pairs))
    wall_s = time.perf_counter() - started
    await verification.stop()
    cache.close()
    return Pass(wall_s=wall_s, verdicts=verdicts, report=verification.take_report()[domain.name])


def _pair(domain: Domain, number: int) -> tuple[Task, str]:
    """A task and a reply to it: every second one returns too little."""
    task = domain.task("train", 1 if number >= 0 else 2, abs(number))
    assert task.gold is not None
    return task, task.gold if number % 2 == 0 else task.gold.replace("    return", "    return 1 and", 1)


def _is_rewritten(number: int) -> bool:
    return number % 10 < 10 * REWRITTEN_SHARE


def _rewrite(reply: str) -> str:
    """The same program in other words: its parameter renamed, with a docstring and a comment."""
    fence, *code, end = reply.splitlines()
    parameter = code[0].partition("(")[2].rstrip("):").partition(",")[0].partition(":")[0].strip()
    tokens = tokenize.generate_tokens(io.StringIO("\n".join(code) + "\n").readline)
    renamed = [(one.type, "renamed" if one.string == parameter else one.string) for one in tokens]
    first, *body = tokenize.untokenize(renamed).splitlines()
    indent = body[0][: len(body[0]) - len(body[0].lstrip())]
    return "\n".join([fence, "# in other words", first, f'{indent}"""What it does."""', *body, end])


def _say(name: str, one: Pass, cold: Pass) -> None:
    num = len(one.verdicts)
    same = sum(a == b for a, b in zip(one.verdicts, cold.verdicts, strict=True))
    print(
        f"{name:<22} {one.wall_s:8.2f} s  {1000 * one.wall_s / num:7.3f} ms a verdict  {one.wall_s / cold.wall_s:6.1%}"
        f" of cold  from cache {one.report.num_hits / num:.1%}  same verdict {same / num:.1%}"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
