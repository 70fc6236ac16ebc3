"""Contents with holes: a terabyte of nothing is copied and compared at once, and no byte of data is passed over."""

import os
from pathlib import Path

import pytest

from burnish.sandbox.inside.contents import Budget, copy, extents, is_same

HUGE = 1 << 40


def make(path: Path, size: int, **data: bytes) -> str:
    """A file of a size with `at123=b"..."` written at byte 123, and holes elsewhere."""
    with open(path, "wb") as file:
        for place, text in data.items():
            file.seek(int(place.removeprefix("at")))
            file.write(text)
    os.truncate(path, size)
    return str(path)


@pytest.fixture
def huge(tmp_path: Path) -> str:
    path = make(tmp_path / "huge", HUGE, at0=b"head", at1000000000=b"middle")
    if os.stat(path).st_blocks > 1000:
        pytest.skip("this filesystem has no holes")
    return path


def test_a_huge_sparse_file_is_copied_with_its_holes(huge: str, tmp_path: Path) -> None:
    copy(huge, str(tmp_path / "copy"))
    status = os.stat(tmp_path / "copy")
    assert status.st_size == HUGE and status.st_blocks <= os.stat(huge).st_blocks
    assert is_same(huge, str(tmp_path / "copy"), Budget())


@pytest.mark.parametrize(
    ("data", "same"),
    [
        ({"at0": b"head", "at1000000000": b"middle"}, True),
        ({"at0": b"head", "at1000000000": b"middle", "at500": b"\0"}, True),
        ({"at0": b"head", "at1000000000": b"middle", "at700000000000": b"\0" * 9000}, True),
        ({"at0": b"head", "at1000000000": b"muddle"}, False),
        ({"at0": b"head"}, False),
        ({"at0": b"head", "at1000000000": b"middle", "at900000000000": b"x"}, False),
    ],
)
def test_what_is_data_in_either_file_is_compared(data: dict[str, bytes], same: bool, huge: str, tmp_path: Path) -> None:
    other = make(tmp_path / "other", HUGE, **data)
    assert is_same(huge, other, Budget()) is is_same(other, huge, Budget()) is same


def test_beyond_the_budget_files_count_as_different(tmp_path: Path) -> None:
    one, other = (make(tmp_path / name, 3 << 20, at0=os.urandom(8) * (3 << 17)) for name in "ab")
    copy(one, other + "2")
    budget = Budget(left=4 << 20)
    assert is_same(one, other + "2", budget) and budget.left == 1 << 20
    assert not is_same(one, other + "2", budget)


def test_an_empty_file_has_no_extent_and_a_dense_one_has_one(tmp_path: Path) -> None:
    for size in (0, 10_000):
        path = make(tmp_path / str(size), size, **({"at0": b"x" * size} if size else {}))
        with open(path, "rb") as file:
            assert list(extents(file.fileno(), size)) == ([(0, size)] if size else [])
