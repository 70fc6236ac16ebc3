"""Processor time of a tree, seen by looks: numbers of `/proc/PID/stat`, worked by hand."""

from burnish.sandbox.inside.spent import Spent


def fields(own: int, reaped: int) -> list[bytes]:
    """The fields behind the name, with these ticks of user time, and of user time of children."""
    return [b"R", *[b"9"] * 10, b"%d" % own, b"0", b"%d" % reaped, b"0"]


def test_time_of_children_that_were_waited_for_counts_once():
    spent = Spent()
    assert spent.ticks({2: fields(5, 0), 3: fields(30, 0)}) == 35
    assert spent.ticks({2: fields(6, 40)}) == 46  # 3 had 40 at its end, of which 30 were seen


def test_time_of_children_that_nobody_waited_for_counts_as_far_as_it_was_seen():
    spent = Spent()
    for pid, total in ((3, 32), (4, 62), (5, 92)):
        assert spent.ticks({2: fields(2, 0), pid: fields(30, 0)}) == total
    assert spent.ticks({2: fields(2, 0)}) == 92


def test_a_number_that_comes_again_is_another_process():
    spent = Spent()
    spent.ticks({3: fields(30, 0)})
    assert spent.ticks({3: fields(10, 0)}) == 40
