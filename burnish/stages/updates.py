"""How a stage that trains moves the weights: the options that all such stages have."""

from typing import Self

from pydantic import Field, field_validator, model_validator

from burnish.core.config import Strict
from burnish.core.errors import ConfigError
from burnish.learner.optimiser import Kind, OptimiserConfig, check
from burnish.learner.schedule import Decay, learning_rate


class Updates(Strict):
    """Optimiser, schedule, clipping, averaging."""

    optimiser: Kind = "adamw"
    learning_rate: float = Field(1e-3, gt=0)
    num_warmup: int = Field(5, ge=0)
    decay: Decay = "linear"
    decay_share: float = Field(0.2, gt=0, le=1)
    """With `warmup_stable_decay`: the share of all steps over which the rate falls."""
    weight_decay: float = Field(0.0, ge=0)
    max_grad_norm: float = Field(1.0, gt=0)
    ema_decay: float = Field(0.0, ge=0, lt=1)
    """Above 0 the stage ends with the running average of its weights: that is what is evaluated and exported."""

    @field_validator("optimiser")
    @classmethod
    def _optimiser_is_there(cls, kind: Kind) -> Kind:
        try:
            check(kind)
        except ConfigError as error:
            raise ValueError(str(error)) from None
        return kind

    @model_validator(mode="after")
    def _decay_share_is_read(self) -> Self:
        if "decay_share" in self.model_fields_set and self.decay != "warmup_stable_decay":
            raise ValueError(
                f"decay_share is of decay 'warmup_stable_decay', and decay is {self.decay!r}; choose that, or leave "
                "decay_share out"
            )
        return self

    def check_ranks(self) -> None:
        """`ConfigError` for an optimiser that a learner of several ranks cannot have."""
        if self.optimiser != "adamw":
            raise ConfigError(
                f"optimiser {self.optimiser!r} needs whole matrices and blocks, and several ranks hold shares; choose "
                "'adamw', or runtime.learner_ranks = 1"
            )

    def optimiser_config(self) -> OptimiserConfig:
        """What the learner is told when the stage begins."""
        return OptimiserConfig(
            kind=self.optimiser,
            weight_decay=self.weight_decay,
            max_grad_norm=self.max_grad_norm,
            ema_decay=self.ema_decay,
        )

    def rate(self, step: int, num_steps: int) -> float:
        """The learning rate of a step."""
        return learning_rate(
            step, peak=self.learning_rate, num_warmup=self.num_warmup, num_steps=num_steps, decay=self.decay,
            decay_share=self.decay_share,
        )  # fmt: skip
