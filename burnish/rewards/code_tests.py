"""Code by tests: judge a tree of files by hidden tests of pytest or unittest, in a fresh place of the sandbox.

`trust` says what the tests can prove, is asked for by name, and stands in every verdict:

- `separate`: the tests run in a process that the tested code is not in; it sees arguments and gives values. It can
  neither read what is expected nor decide a comparison. Only special-casing of inputs that it knows is left.
  For tests of functions and objects with plain values; see `code_tests_proxy` for what does not go.
- `same_interpreter`: tested code and tests share an interpreter, as real repositories want it. Every common
  forgery is caught (docs/wrong_passes.md), but code that looks for the expected values in the frames above it, or
  for the seal in memory, cannot be stopped: a pass here is strong evidence of honest code, and no proof.

A grade is never lowered because of what a submission does: that would be the submission's choice.

Covered: fractions or all-or-nothing; per-test processor time and wall; tests with conftest, helpers and data files.
Not covered: tests that build packages or need a network; the tests' data files can be read by the tested code.
"""

import importlib.util
import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Final, Literal

from burnish.core.errors import ConfigError
from burnish.core.types import Verdict
from burnish.rewards import code_tests_job
from burnish.rewards.code_tests_reports import judge, nothing
from burnish.sandbox import Box, Job, ResourceLimits

Trust = Literal["separate", "same_interpreter"]
Framework = Literal["pytest", "unittest"]
LIMITS: Final = ResourceLimits(
    wall_s=60.0, cpu_s=20.0, memory_mb=512, disk_mb=32, num_files=4096, num_processes=16, output_bytes=1 << 20
)
LONGEST_NAME_BYTES: Final = 255
PAGE_BYTES: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class TestSuite:
    """Hidden tests: `tests` are Python files by relative name, `ids` each test that must report once."""

    __test__ = False  # no class of tests, whatever pytest thinks of its name

    tests: Mapping[str, str]
    ids: Sequence[str]
    modules: Sequence[str]
    """Top-level names of the tested code; they are taken from the tree, whatever is installed."""
    trust: Trust
    framework: Framework = "pytest"
    is_all_or_nothing: bool = False
    roots: Sequence[str] = ("",)
    """Folders of the tree on the import path, such as `src`."""
    data: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    """Files that the tests read, next to them."""
    plugins: Sequence[str] = ()
    """Installed pytest plugins by module name; none is loaded by itself."""
    has_part_per_test: bool = False
    test_cpu_s: float = 2.0
    test_wall_s: float = 15.0
    limits: ResourceLimits = LIMITS


async def verify(tree: Mapping[str, bytes], suite: TestSuite, box: Box) -> Verdict:
    """Run the suite on the agent's files; the score is the share of ids that passed."""
    check(suite)
    files = {name: content for name, content in tree.items() if not _is_compiled(name)}
    if why := misfit(files, suite.limits):
        return nothing(suite.ids, suite.trust, why, has_part_per_test=suite.has_part_per_test)
    token = secrets.token_hex(16)
    work = {
        "token": token, "trust": suite.trust, "tests": dict(suite.tests), "ids": list(suite.ids),
        "data": {name: content.hex() for name, content in suite.data.items()}, "modules": list(suite.modules),
        "roots": list(suite.roots), "plugins": list(suite.plugins),
        "test_cpu_s": suite.test_cpu_s, "test_wall_s": suite.test_wall_s,
    }  # fmt: skip
    job = Job(
        source=code_tests_job.program(suite.framework),
        files=files,
        stdin=json.dumps(work).encode(),
        preload=code_tests_job.preload(suite.framework),
        limits=suite.limits,
    )
    outcome = await box.run(job)
    return judge(
        outcome, token, suite.ids, suite.trust,
        is_all_or_nothing=suite.is_all_or_nothing, has_part_per_test=suite.has_part_per_test,
    )  # fmt: skip


def misfit(files: Mapping[str, bytes], limits: ResourceLimits) -> str:
    """Why a tree cannot be laid out in a box, which is its maker's doing and no fault of the box; empty if it can."""
    paths = {name: PurePosixPath(name) for name in files}
    folders = {parent for path in paths.values() for parent in path.parents}
    if any(path.is_absolute() or ".." in path.parts or "\0" in name or not path.parts for name, path in paths.items()):
        return "a tree with a name that leads out of it"
    if len(set(paths.values())) < len(paths) or folders & set(paths.values()):
        return "a tree in which one name stands for two things"
    if any(len(part.encode(errors="replace")) > LONGEST_NAME_BYTES for path in paths.values() for part in path.parts):
        return "a tree with a name that no folder takes"
    num_pages = sum(-(-len(content) // PAGE_BYTES) for content in files.values())
    if len(paths) + len(folders) > limits.num_files // 2 or num_pages * PAGE_BYTES > limits.disk_mb << 19:
        return "a tree larger than half of what its box holds"
    return ""


def _is_compiled(name: str) -> bool:
    """Compiled files are left out: what is judged is what can be read."""
    path = PurePosixPath(name)
    return path.suffix in (".pyc", ".pyo") or "__pycache__" in path.parts


def check(suite: TestSuite) -> None:
    """Refuse a suite that cannot be judged; `ConfigError` says why."""
    if suite.framework == "pytest" and importlib.util.find_spec("pytest") is None:
        raise ConfigError("tests of pytest need it: pip install 'burnish[verify]', or take framework = 'unittest'")
    if not suite.ids or len(set(suite.ids)) != len(suite.ids):
        raise ConfigError(f"a test suite names each expected id once; got {len(suite.ids)} ids, some twice or none")
    if not suite.modules:
        raise ConfigError("a test suite names the tested modules (their top-level names); got none")
    for name in (*suite.tests, *suite.data):
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or not path.parts:
            raise ConfigError(f"bad file name {name!r} in a test suite; expected one relative to its folder")
