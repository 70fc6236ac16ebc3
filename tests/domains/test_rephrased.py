"""Other words around a task change what is asked as little as what is paid."""

import asyncio

import pytest

from burnish.core.errors import ConfigError
from burnish.domains import open_domain
from burnish.domains.rephrased import FRAMES


@pytest.mark.parametrize("name", ["arithmetic", "documents", "knowledge:capitals"])
def test_the_task_stands_whole_in_a_frame_and_is_judged_by_its_own_domain(name):
    plain, framed = open_domain(name), open_domain(f"rephrased:{name}")
    for index in range(8):
        ours, theirs = framed.task("eval", 1, index), plain.task("eval", 1, index)
        assert theirs.messages[-1].content in ours.messages[-1].content != theirs.messages[-1].content
        assert ours.prompt_hash != theirs.prompt_hash
        for reply in (theirs.gold, "no such thing", ""):
            verdicts = [asyncio.run(one.verify(task, reply, None)) for one, task in ((plain, theirs), (framed, ours))]
            assert verdicts[0].score == verdicts[1].score
        assert asyncio.run(framed.verify(ours, ours.gold, None)).score == 1


def test_all_frames_come_up_and_hold_the_task_once():
    framed = open_domain("rephrased:arithmetic")
    starts = {framed.task("eval", 1, index).messages[-1].content[:5] for index in range(60)}
    assert len(starts) >= len(FRAMES)  # the frame that begins with the sum has many starts
    assert all(frame.count("{}") == 1 for frame in FRAMES)


def test_it_only_evaluates_and_only_domains_of_one_reply():
    with pytest.raises(ConfigError, match="for evaluation only"):
        open_domain("rephrased:arithmetic").task("train", 1, 0)
    with pytest.raises(ConfigError, match="take several turns"):
        open_domain("rephrased:terminal")
    with pytest.raises(ConfigError, match="write for example rephrased:documents"):
        open_domain("rephrased")
