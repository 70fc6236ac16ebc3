"""A SWE-bench or SWE-smith row as a terminal task, over the source tree of its repository.

The rows name images; what they need of one is the repository at the row's commit, with what it imports installed. So a
row becomes a task where a folder has that tree (`--sources DIR`, with `DIR/INSTANCE_ID`, or `DIR/REPO` and `/` in the
name written `__`), and is refused otherwise, with what it needs. A SWE-smith row's patch is planted; a SWE-bench row's
tree is as it was before its patch. The history of the source tree is not taken, so nothing can be looked up in it.

Decisions: the tests that judge come from the tree with the row's `test_patch`; files of tests whose failing tests all
are new are hidden, and what the agent may not change is every file that has a judging test. The oracle is the mending
patch. Not covered: tests that are no ids of pytest (Django's, for example), which are refused.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from burnish.core.errors import ConfigError
from burnish.data import unified_diff
from burnish.data.mutations.repair import hunks
from burnish.data.swe import SweRow
from burnish.domains.terminal.history import START, commit
from burnish.domains.terminal.oracle import Call, create, replace, shell, submit
from burnish.domains.terminal.spec import TerminalTask, TestsCheck
from burnish.rewards.process import Fault, Place

LARGEST_FILE: Final = 1 << 20
MOST_FILES: Final = 4_000
LEFT_OUT: Final = frozenset(
    {".git", ".hg", "__pycache__", ".tox", ".venv", "node_modules", ".pytest_cache", "build", "dist"}
)


def source_tree(row: SweRow, sources: Path | None) -> dict[str, bytes]:
    """The files of a row's repository; `ConfigError` says what is needed where there are none."""
    names = [row.instance_id, row.repo.replace("/", "__")]
    found = [sources / name for name in names if (sources / name).is_dir()] if sources else []
    if not found:
        image = row.image_name or f"{row.repo} at {row.base_commit}"
        raise ConfigError(
            f"row {row.instance_id!r} needs a container backend (for {image!r}), or its source tree in a folder "
            f"DIR/{row.instance_id} that --sources DIR names"
        )
    paths = [path for path in sorted(found[0].rglob("*")) if path.is_file() and not path.is_symlink()]
    kept = [path for path in paths if not LEFT_OUT & set(path.relative_to(found[0]).parts)]
    if len(kept) > MOST_FILES:
        raise ConfigError(
            f"row {row.instance_id!r}: {str(found[0])!r} has {len(kept)} files; at most {MOST_FILES} are taken"
        )
    return {str(path.relative_to(found[0])): path.read_bytes() for path in kept if path.stat().st_size <= LARGEST_FILE}


def from_swe(row: SweRow, tree: Mapping[str, bytes], base: str) -> TerminalTask:
    """Make the task of a row over its tree; `base` is the tree's hash in the store."""
    texts = {name: text for name, content in tree.items() if (text := _text(content)) is not None}
    broken, fixed = _both(row, texts)
    with_tests = {**texts, **broken, **(unified_diff.apply(texts, row.test_patch) if row.test_patch else {})}
    judging = sorted({name.partition("::")[0] for name in (*row.FAIL_TO_PASS, *row.PASS_TO_PASS)})
    if missing := [name for name in judging if with_tests.get(name) is None]:
        raise ConfigError(f"row {row.instance_id!r}: test file {missing[0]!r} is not in its tree: no ids of pytest?")
    tests = {name: text for name, text in with_tests.items() if text is not None and _is_of_tests(name, judging)}
    return TerminalTask(
        family=row.kind,
        level=5,
        instruction=row.problem_statement.strip(),
        files={name: text for name, text in broken.items() if text is not None},
        base=base,
        removed=tuple(name for name, text in broken.items() if text is None),
        setup=(*START, commit("Import", 0)),
        protected=tuple(judging),
        check=TestsCheck(
            required=tuple(row.FAIL_TO_PASS), kept=tuple(row.PASS_TO_PASS), tests=tests,
            modules=_modules(tree, judging), test_cpu_s=10.0, test_wall_s=30.0,
        ),
        fault=_fault({**texts, **broken}, fixed, row),
        oracle=_oracle({**texts, **broken}, fixed),
        max_steps=50,
        source=f"{row.kind}:{row.repo}",
        tags=(row.instance_id,),
    )  # fmt: skip


def _both(row: SweRow, texts: Mapping[str, str]) -> tuple[dict[str, str | None], dict[str, str | None]]:
    """What differs from the tree in the task, and what its solution changes of that."""
    patched = unified_diff.apply(texts, row.patch)
    if row.kind == "swe-bench":
        return {}, patched
    return patched, {name: texts.get(name) for name in patched}


def _modules(tree: Mapping[str, bytes], judging: list[str]) -> tuple[str, ...]:
    """The top-level packages and modules of the tree, tests aside."""
    tops = {name.partition("/")[0] for name in judging}
    found = {name.split("/")[0] for name in tree if name.endswith("/__init__.py") and name.count("/") == 1}
    found |= {name.removesuffix(".py") for name in tree if name.endswith(".py") and "/" not in name}
    return tuple(sorted(found - tops - {"setup", "conftest"})) or ("setup",)


def _is_of_tests(name: str, judging: list[str]) -> bool:
    """Whether a file judges, or is what judging files use: their neighbours and conftests."""
    folders = {file.rpartition("/")[0] for file in judging}
    return name in judging or (name.endswith(".py") and name.rpartition("/")[0] in folders and "test" in name)


def _fault(faulty: Mapping[str, str | None], fixed: Mapping[str, str | None], row: SweRow) -> Fault:
    every = [(name, hunk) for name, text in fixed.items() for hunk in hunks(faulty.get(name) or "", text or "")]
    return Fault(
        places=tuple(Place(path=name, first_line=hunk.first_line, last_line=hunk.last_line) for name, hunk in every),
        failing=frozenset(row.FAIL_TO_PASS),
        num_lines=max(1, sum(hunk.num_lines for _, hunk in every)),
    )


def _oracle(faulty: Mapping[str, str | None], fixed: Mapping[str, str | None]) -> tuple[Call, ...]:
    calls: list[Call] = []
    for name, text in fixed.items():
        old = faulty.get(name)
        if text is None:
            calls.append(shell(f"rm {name}"))
        elif old is None:
            calls.append(create(name, text))
        else:
            calls += [replace(name, hunk.old, hunk.new) for hunk in hunks(old, text)[::-1]]
    return (*calls, submit())


def _text(content: bytes) -> str | None:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None
