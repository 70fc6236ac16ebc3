"""The golden batch as fixtures."""

from collections.abc import Callable
from typing import Any

import pytest
from torch import Tensor

from tests.objectives.kernel import batch


@pytest.fixture(scope="session")
def golden() -> dict[str, Any]:
    return batch.GOLDEN


@pytest.fixture(scope="session", name="rewards_G")
def golden_rewards() -> Tensor:
    return batch.rewards()


@pytest.fixture(scope="session")
def batch_of() -> Callable[..., batch.Batch]:
    """Build the streams of chosen sequences of the golden batch, in that order."""
    return batch.batch_of


@pytest.fixture(scope="session")
def close() -> Callable[[Any, Any], bool]:
    """Whether two numbers or tensors agree to the golden file's tolerance."""
    return batch.close
