"""The compiled step is built once, kept whole, checked before it is trusted, and its absence has a reason."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from burnish.core.compiling import Unavailable, processor_flags
from burnish.engine.native.build import LEVELS, built_library
from burnish.engine.native.library import load, trusted_level
from burnish.engine.native.steps import reason_why_not
from tests.engine.native.models import make

pytestmark = pytest.mark.skipif(
    (reason := reason_why_not(make("llama"))) is not None, reason=f"the native step cannot be had here: {reason}"
)


@pytest.fixture
def library(tmp_path) -> Path:
    """A copy of the compiled step and its checksum, in a folder of its own."""
    kept = built_library(notice=pytest.fail)
    for suffix in (".so", ".sha256"):
        shutil.copy(kept.with_suffix(suffix), tmp_path)
    return tmp_path / kept.name


@pytest.fixture
def no_compiler(monkeypatch, tmp_path) -> None:
    """A compiler that says which it is, as before, and compiles nothing."""
    real = shutil.which("g++")
    fake = tmp_path / "bin" / "g++"
    fake.parent.mkdir()
    fake.write_text(f'#!/bin/sh\n[ "$1" = --version ] && exec {real} --version\necho "error: no" >&2; exit 1\n')
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")


def test_what_is_kept_is_not_compiled_again(library):
    assert built_library(notice=pytest.fail, cache=library.parent) == library


def test_another_process_looks_for_the_library_under_the_same_name(library):
    say = "from burnish.engine.native import build; print(build.built_library(notice=print).name)"
    for seed in "123":
        environment = os.environ | {"PYTHONHASHSEED": seed}
        done = subprocess.run([sys.executable, "-c", say], env=environment, capture_output=True, text=True, timeout=100)
        assert done.stdout == f"{library.name}\n"


@pytest.mark.parametrize("damage", [lambda content: content[:5000], lambda content: content[:-1] + b"?", lambda _: b""])
def test_a_damaged_library_is_never_loaded_but_compiled_again(library, no_compiler, damage):
    """With a compiler that fails, so that the attempt is seen and takes no time."""
    library.write_bytes(damage(library.read_bytes()))
    notices: list[str] = []
    with pytest.raises(Unavailable, match=r"cannot compile .*: error: no"):
        built_library(notice=notices.append, cache=library.parent)
    assert "compiling the native step" in notices[0]


def test_a_damaged_checksum_is_as_good_as_none(library, no_compiler):
    library.with_suffix(".sha256").write_bytes(b"\xff" * 64)
    with pytest.raises(Unavailable, match="cannot compile"):
        built_library(notice=lambda _: None, cache=library.parent)


def test_a_folder_that_cannot_be_written_is_a_reason_before_anything_is_compiled(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(Unavailable, match=r"cannot be kept.*name a folder that can be written in BURNISH_CACHE"):
        built_library(notice=pytest.fail, cache=tmp_path / "file" / "native")


def test_without_a_compiler_the_reason_says_so(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(Unavailable, match=r"no C\+\+ compiler 'g\+\+'; install g\+\+"):
        built_library(notice=pytest.fail, cache=tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("stuck_at", ["--version", "-std=c++20"])
def test_a_compiler_that_does_not_end_is_stopped_and_is_a_reason(library, monkeypatch, tmp_path, stuck_at):
    slow = tmp_path / "slow"
    slow.write_text(f'#!/bin/sh\n[ "$1" = {stuck_at} ] && exec sleep 60\necho slow 1.0\n')
    slow.chmod(0o755)
    monkeypatch.setenv("CXX", str(slow))
    with pytest.raises(Unavailable, match=r"was not done within 0\.2 s, and was stopped"):
        built_library(notice=lambda _: None, cache=library.parent, timeout_s=0.2)
    assert len(list(library.parent.glob("*.so"))) == 1


def test_another_compiler_has_an_entry_of_its_own(library, monkeypatch, tmp_path):
    other = tmp_path / "other"
    other.write_text('#!/bin/sh\n[ "$1" = --version ] && echo other 1.0 || { echo "error: no" >&2; exit 1; }\n')
    other.chmod(0o755)
    monkeypatch.setenv("CXX", str(other))
    with pytest.raises(Unavailable, match="cannot compile"):
        built_library(notice=lambda _: None, cache=library.parent)


def test_levels_are_those_of_the_processor(library):
    expected = {level.name for level in LEVELS if level.needs <= processor_flags()}
    assert set(load(library)["levels"]().decode().split()) == expected


def test_the_check_passes_the_levels_that_are_here_and_its_outcome_is_kept(library):
    assert trusted_level(library, ["avx2"], pytest.fail) == "avx2"
    library.write_bytes(b"not a library")  # a second check would fail
    assert trusted_level(library, ["amx", "avx2"], pytest.fail) == "avx2"


@pytest.mark.parametrize("noted", [b"", b"amx", b"\xff"])
def test_an_outcome_that_is_no_level_of_this_place_is_not_believed(library, noted):
    trusted_level(library, ["avx2"], pytest.fail)
    next(library.parent.glob("*.level")).write_bytes(noted)
    assert trusted_level(library, ["avx2"], pytest.fail) == "avx2"


def test_a_level_that_fails_its_check_gives_way_to_the_next_with_one_line(library):
    """A level that is not there fails: the child ends with an error, as it would after a wrong result."""
    notices: list[str] = []
    assert trusted_level(library, ["amx9000", "avx2"], notices.append) == "avx2"
    assert len(notices) == 1 and "amx9000 fails its check on this processor (wrong results)" in notices[0]


def test_a_crash_ends_the_child_alone(library):
    library.write_bytes(b"not a library")
    with pytest.raises(Unavailable, match="none of its instruction sets"):
        trusted_level(library, ["avx2"], lambda _: None)
