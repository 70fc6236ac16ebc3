"""When a domain's tasks train: what an entry of a recipe's `[[tasks]]` may say of it, and stage `rl` for all of them.

A domain is what is reported under one name. Its mean reward is that of its last `over` training groups.
"""

from typing import Self

from pydantic import Field, model_validator

from burnish.core.config import Strict


class Enters(Strict):
    """When a domain begins to train; all that is said must hold."""

    after: list[str] = []
    """Domains that must train soundly before, by the names that they are reported under."""
    when_reward: float | None = Field(default=None, gt=0, le=1)
    """The mean reward that each of them must have reached."""
    over: int = Field(default=16, ge=1)
    at_step: int = Field(default=0, ge=0)
    """Not before this step of the stage."""

    @model_validator(mode="after")
    def _after_has_a_bound(self) -> Self:
        if bool(self.after) != (self.when_reward is not None):
            raise ValueError(
                "enters: `after` names domains and `when_reward` the mean reward that they must have reached; got "
                f"after = {self.after!r} and when_reward = {self.when_reward!r}; set both, or neither"
            )
        return self


class Solved(Strict):
    """A domain whose mean reward has reached a bound counts less, until it falls below it again."""

    above: float = Field(gt=0, le=1)
    over: int = Field(default=32, ge=1)
    weight: float = Field(default=0.1, ge=0, lt=1)
    """By what its share is multiplied; 0: it leaves for good."""


class Silent(Strict):
    """A domain whose groups hardly ever differ in reward counts less, until they do again."""

    below: float = Field(default=0.05, ge=0, lt=1)
    """The share of its groups whose members scored differently."""
    over: int = Field(default=32, ge=1)
    weight: float = Field(default=0.1, ge=0, lt=1)
    """By what its share is multiplied; 0: it leaves for good."""
