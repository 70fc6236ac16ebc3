import asyncio
from concurrent.futures import CancelledError

import pytest

from burnish.runtime.local import Background


async def double(number: int) -> int:
    await asyncio.sleep(0)
    return 2 * number


def test_coroutines_run_beside_the_main_thread() -> None:
    with Background() as background:
        futures = [background.submit(double(number)) for number in range(3)]
        assert [future.result() for future in futures] == [0, 2, 4]
        assert background.run(double(21)) == 42


def test_stopping_cancels_what_still_runs_and_may_be_repeated() -> None:
    background = Background()
    future = background.submit(asyncio.sleep(3600))
    background.stop()
    background.stop()
    with pytest.raises(CancelledError):
        future.result(timeout=1)
