"""Every attack in `attacks/` is tried: none gets out, none leaves a trace, none is paid."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import pytest

from burnish.core.errors import SandboxError
from burnish.core.types import Task
from burnish.domains import Domain, open_domain
from burnish.evals import canon
from burnish.rewards.hostile import FUNCTION
from burnish.rollout.judge import Judge, judge_in
from burnish.sandbox import Box, Job, Outcome, ResourceLimits, backends, open_box
from burnish.sandbox.place import ISOLATED, Command, Place, PlaceSpec
from tests.security.conftest import Host, make_host
from tests.security.found import GROUPS, Attack, attacks

SMALL = {"wall_s": 20.0, "cpu_s": 10.0, "memory_mb": 128, "disk_mb": 2, "num_files": 64, "num_processes": 8}
HELD = """
import subprocess
source = open("attack.py").read()
try:
    exec(compile(source, "attack.py", "exec"), {"__name__": "attack"})
except (OSError, ValueError, OverflowError, ImportError, subprocess.SubprocessError):
    print("held")
else:
    print("ESCAPED")
"""
OTHERS = [name for name in backends.names() if name not in ("namespaces", "none")]
NUM_ATTACKS = 120
pytestmark = pytest.mark.timeout(600)  # jobs give way to all else, so on a busy machine they take long
PLACES_TESTED = "bubblewrap"

ROWS = {
    "number": [(f"What is {n} + 55?", n + 55) for n in range(1017, 1033)],
    "choice": [(f"Which is number {n}? A one B two C three D four", "ABCD"[n - 1]) for n in (1, 2, 3, 4)],
    "exact": [(f"Say {word} backwards.", word[::-1]) for word in ("table", "window", "garden", "kettle")],
    "json": [(f"Give n = {n} and its double as JSON.", {"n": n, "double": 2 * n}) for n in (171, 172, 173, 174)],
    "regex": [(f"Say {word}.", word) for word in ("table", "window", "garden", "kettle")],
}


def job(attack: Attack, host: Host) -> Job:
    files = {"attack.py": attack.source.encode(), "given.json": host.given}
    return Job(source=HELD, files=files, limits=ResourceLimits(**{**SMALL, **attack.constants.get("LIMITS", {})}))


def fault(attack: Attack, outcome: Outcome) -> str:
    """What went wrong; empty if the attack was held."""
    is_held = outcome.ending in attack.constants.get("ENDINGS", ("exited",)) and b"ESCAPED" not in outcome.stdout
    says_so = outcome.ending != "exited" or outcome.stdout == b"held\n"
    return "" if is_held and says_so else f"{attack.name}: {outcome}"


def ids(found: Sequence[Attack]) -> list[str]:
    return [attack.name for attack in found]


def test_there_are_many_attacks_of_every_group_and_each_says_what_it_tries() -> None:
    found = attacks()
    assert len(found) >= NUM_ATTACKS
    assert {attack.name.partition("/")[0] for attack in found} == set(GROUPS)
    assert [a.name for a in found if not a.docstring.startswith("Tries: ") or "\nMust: " not in a.docstring] == []


@pytest.mark.parametrize("attack", attacks("job"), ids=ids(attacks("job")))
def test_a_job_is_held_and_leaves_no_trace(attack: Attack, box: Box, host: Host) -> None:
    outcome = asyncio.run(box.run(job(attack, host)))
    assert not fault(attack, outcome)
    host.check_untouched()


def test_what_one_job_leaves_another_does_not_find(box: Box, host: Host) -> None:
    [attack] = [attack for attack in attacks("job") if attack.name == "escape/residue_of_a_job"]
    assert [asyncio.run(box.run(job(attack, host))).stdout for _ in range(3)] == [b"held\n"] * 3


@pytest.mark.parametrize("name", ["read_canary", "list_canary_folder", "overwrite_canary", "host_port"])
def test_an_attack_that_nothing_holds_is_seen(name: str, host: Host) -> None:
    """With isolation `none` these reach the canary, the port and nothing else: the proof that a hole would show."""

    async def run() -> Outcome:
        async with open_box("none") as box:
            return await box.run(job(attack, host))

    [attack] = [attack for attack in attacks("job") if attack.name == f"escape/{name}"]
    outcome = asyncio.run(run())
    assert outcome.stdout == b"ESCAPED\n" and fault(attack, outcome)


@pytest.fixture(scope="session")
def domain_named(tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("rows")

    @lru_cache
    def named(name: str) -> Domain:
        if name not in ROWS:
            return open_domain(name)
        path = folder / f"{name}.jsonl"
        rows = [{"prompt": prompt, "truth": truth} for prompt, truth in ROWS[name]]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return open_domain(f"jsonl:{path}", {"verifier": name})

    return named


def reply(text: str, task: Task, other: Task) -> str:
    """A reply as the attack means it for this task."""
    found = FUNCTION.search(task.gold or "")
    meant = {"NAME": found.group(1) if found else "solution", "PROMPT": task.messages[-1].content}
    meant |= {"GOLD": task.gold or "", "OTHER": other.gold or ""}
    for word, value in meant.items():
        text = text.replace(word, value)
    return text


async def faults(attack: Attack, domain: Domain, judge: Judge) -> list[str]:
    """What was paid more than its honest reply, or broke the verifier. A fixed text may be right once, by chance."""
    tasks = canon.apart(canon.draw(domain, "train", 4, 8), 2)
    assert len(tasks) == 2
    broken, paid = [], []
    for task, other in zip(tasks, reversed(tasks), strict=True):
        verdict = await judge(domain, task, reply(attack.constants["REPLY"], task, other))
        plain = attack.constants.get("HONEST", "")
        floor = (await judge(domain, task, reply(plain, task, other))).score if plain else 0.0
        line = f"{attack.name} on {task.id}: {verdict}"
        if verdict.kind != "scored":
            broken.append(line)
        elif (verdict.score or 0) > (floor or 0):
            paid.append(line)
    knows_gold = "GOLD" in attack.constants["REPLY"]
    return broken + (paid if knows_gold or len(paid) == len(tasks) else [])


@pytest.mark.parametrize("attack", attacks("reply"), ids=ids(attacks("reply")))
def test_a_reply_is_not_paid_and_breaks_no_verifier(attack: Attack, box: Box, domain_named) -> None:
    async def all_faults() -> list[str]:
        judge = judge_in(box, num_at_once=2)
        return [
            line for name in attack.constants["DOMAINS"] for line in await faults(attack, domain_named(name), judge)
        ]

    assert asyncio.run(all_faults()) == []


def test_a_reply_that_a_kind_verifier_pays_is_seen() -> None:
    """With a verifier that pays for any text, the attack shows."""

    class Kind:
        name, executes_code = "kind", False

        async def verify(self, task, reply, box):
            return type(honest)(kind="scored", score=float(bool(reply)))

    arithmetic = open_domain("arithmetic", {"largest": 1000})
    honest = asyncio.run(arithmetic.verify(arithmetic.task("train", 1, 0), "", None))
    kind = Kind()
    kind.size, kind.task = arithmetic.size, arithmetic.task
    [attack] = [attack for attack in attacks("reply") if attack.name == "leaks_and_judges/claim"]
    assert len(asyncio.run(faults(attack, kind, judge_in(None, num_at_once=1)))) == 2


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", OTHERS)
def test_every_job_is_held_by_each_other_backend(name: str, tmp_path: Path, port: int) -> None:
    if lacks := backends.missing(name):
        pytest.skip(f"{name} is not on this host: {'; '.join(lacks)}")
    found = attacks("job")
    hosts = [make_host(tmp_path / str(number), port) for number in _folders(tmp_path, len(found))]

    async def run() -> list[Outcome]:
        async with backends.open_backend(name, num_workers=2) as backend:
            if not backend.guarantees >= ISOLATED:
                pytest.skip(f"{name} promises less: {sorted(backend.guarantees)}")
            return await asyncio.gather(*(backend.run(job(a, h)) for a, h in zip(found, hosts, strict=True)))

    assert [
        line for attack, outcome in zip(found, asyncio.run(run()), strict=True) if (line := fault(attack, outcome))
    ] == []
    for host in hosts:
        host.check_untouched()


def _folders(folder: Path, num: int) -> range:
    for number in range(num):
        (folder / str(number)).mkdir()
    return range(num)


@pytest.mark.slow
@pytest.mark.parametrize("attack", attacks("result"), ids=ids(attacks("result")))
def test_a_result_that_is_no_small_plain_file_is_refused(attack: Attack, host: Host) -> None:
    if lacks := backends.missing(PLACES_TESTED):
        pytest.skip(f"no places on this host: {'; '.join(lacks)}")

    async def read(place: Place) -> bytes:
        await place.write("given.json", host.given)
        await place.write("attack.py", attack.source.encode())
        outcome = await place.run(Command(argv=("python3", "attack.py"), wall_s=20))
        assert (outcome.ending, outcome.exit_code) == ("exited", 0), outcome
        return await asyncio.wait_for(place.read(attack.constants["READS"], 10_000), 20)

    async def run() -> bytes:
        async with backends.open_backend(PLACES_TESTED) as backend:
            place = await backend.start(PlaceSpec(limits=ResourceLimits(disk_mb=4)))
            try:
                return await read(place)
            finally:
                await place.stop()

    with pytest.raises(SandboxError):
        asyncio.run(run())
    host.check_untouched()


def test_the_attacks_are_data_and_importing_them_runs_none() -> None:
    program = "from tests.security.found import attacks; print(len(attacks()))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=Path.cwd())
    assert int(done.stdout) >= NUM_ATTACKS
