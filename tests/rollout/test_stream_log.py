from dataclasses import replace

import pytest

from burnish.core.errors import RunFolderError
from burnish.core.ledger import Events
from burnish.core.types import Trajectory
from burnish.rollout.stream_log import (
    Accounted,
    Began,
    Chosen,
    Cut,
    Died,
    Ended,
    Interrupted,
    Judged,
    Key,
    Sampled,
    Trained,
    Turned,
    digest,
    from_ledger,
    to_json,
)

KEY = Key(3, 1, 2)
ALL = (
    Began(KEY), Sampled(KEY, 4, 5, "0123456789ab"), Judged(KEY), Judged(KEY, "timeout", 1.5, 7), Cut(KEY),
    Ended(7, "stale"),
    Trained(6, 6, (Chosen(3, (0, 2)), Chosen(5, (1,)))), Interrupted(), Turned(1, 40, 44, 6, (KEY,), ()),
    Turned(0, 3, 3, 5, (), (KEY, Key(4, 0, 0))), Died(1, 6), Accounted({"a": {"tokens": 3}}),
)  # fmt: skip
ONE = Trajectory(
    group_id="0/0000003", member=1, task_id="t", prompt_hash="p", seed=1, token_ids=(5, 6), was_sampled=(False, True),
    logprobs=(0.0, -0.1), reply="a", stop_reason="eos", oldest_version=4, newest_version=5,
)  # fmt: skip


def test_events_come_back_from_the_ledger_as_they_were() -> None:
    (moment,) = from_ledger([Events(9, to_json(ALL))])
    assert moment == (9, ALL)


def test_an_event_of_another_version_is_one_clear_error() -> None:
    with pytest.raises(RunFolderError, match="unknown kind 'z'"):
        from_ledger([Events(0, [["z", 1]])])


@pytest.mark.parametrize(
    "changed",
    [
        replace(ONE, token_ids=(5, 7)),
        replace(ONE, logprobs=(0.0, -0.1 * (1 + 2**-52))),
        replace(ONE, stop_reason="length"),
    ],
)
def test_a_digest_differs_by_a_token_by_a_bit_of_a_logprob_and_by_the_ending(changed: Trajectory) -> None:
    assert digest(changed) != digest(ONE)
    assert digest(replace(ONE, sample_s=1.0, reply="b")) == digest(ONE)
