"""An engine of another package in this process, and the loop, in a thread of its own, that it lives in."""

from collections.abc import Coroutine
from concurrent.futures import CancelledError
from typing import Any, TypeVar

from burnish.core.errors import EngineError
from burnish.engine.http_client import GivenUp, Lifeline
from burnish.runtime.local import Background

T = TypeVar("T")


class Inside:
    """The engine, and how its coroutines are waited for from any thread."""

    def __init__(self, name: str, engine: Any, background: Background) -> None:
        self.engine = engine
        self._name, self._background = name, background

    def wait(self, what: str, work: Coroutine[object, object, T], wait_s: float | None, lifeline: Lifeline) -> T:
        """Run a coroutine of the engine's, in bounded time."""
        future = self._background.submit(work)
        lifeline.hold(future.cancel)
        try:
            return future.result(wait_s)
        except CancelledError:
            raise GivenUp(f"{what}: given up") from None
        except TimeoutError:
            future.cancel()
            raise EngineError(f"{self._name} did not finish {what} within {wait_s:g} s") from None
        except (ValueError, RuntimeError) as error:  # what engines raise
            raise EngineError(f"{self._name} failed in {what}: {error}") from error
        finally:
            lifeline.hold(None)
