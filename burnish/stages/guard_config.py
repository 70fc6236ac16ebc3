"""Options of the gates within stage `rl`."""

from typing import Literal, Self

from pydantic import Field, model_validator

from burnish.core.config import Strict


class GuardConfig(Strict):
    """What must not get worse, and how sure one wants to be of it."""

    every: int = Field(ge=1)
    """Steps between gates; there is one more after the last step."""
    suites: list[str] = Field(min_length=1)
    """Names that tasks are reported under: their held-out ones, `num_eval` of each entry. And suites, layers, files of
    suites, as `burnish eval --suite` takes them."""
    margin: float = Field(default=0.05, gt=0, lt=1)
    """How much lower a suite's mean score may be and still count as no worse."""
    margins: dict[str, float] = {}
    """Of single suites, or of all of a layer, where it is another."""
    alpha: float = Field(default=0.05, gt=0, lt=1)
    """The chance that a stage in which nothing gets worse is ever rolled back; and, the other way round, that one ever
    promotes a checkpoint that is worse."""
    against: Literal["start", "both"] = "both"
    """Compare with the stage's beginning, or with the last promoted checkpoint as well."""
    look_every: int = Field(default=32, ge=1)
    """Tasks of a suite between two looks."""
    cut: float = Field(default=0.75, gt=0, le=1)
    """What part of its share a roll-back takes from the domain that is suspected most."""

    @model_validator(mode="after")
    def _suites_are_named_once(self) -> Self:
        if len(set(self.suites)) < len(self.suites):
            raise ValueError(f"guard: suites names one twice: {self.suites!r}; name each once")
        for name, margin in self.margins.items():
            if not 0 < margin < 1:
                raise ValueError(f"guard: margins: a margin lies between 0 and 1; got {margin} for {name!r}")
        return self

    def margin_of(self, suite: str, word: str = "") -> float:
        """A suite's margin; `word` is what the suite was named by."""
        return self.margins.get(suite, self.margins.get(word, self.margin))

    def is_due(self, step: int, num_steps: int) -> bool:
        """Whether a gate comes after so many steps."""
        return step == num_steps or (step > 0 and step % self.every == 0)

    def num_gates(self, num_steps: int) -> int:
        """How many gates a stage has."""
        return -(-num_steps // self.every)
