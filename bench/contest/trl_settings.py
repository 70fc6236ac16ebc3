"""How TRL is used in every contest: nothing logged, kept or recomputed; its default runs each layer twice.

Its default precision is bfloat16 over float32 weights, as it is Burnish's; here it is so where the contest's is. With
`weights` of bfloat16, nothing is float32, moments included: faster, and small changes of weights are rounded away.
"""

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import peft
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    TrainerCallback,
)

NOTHING = str(Path(tempfile.gettempdir(), "burnish-bench-trl"))
"""A folder that the trainers make and leave empty."""

RANK, ALPHA = 16, 32
MICRO_BATCH = 8

PLAIN: dict[str, Any] = {
    "output_dir": NOTHING, "use_cpu": True, "fp16": False, "gradient_checkpointing": False,
    "report_to": [], "save_strategy": "no", "logging_strategy": "no", "disable_tqdm": True, "max_steps": 1,
    "weight_decay": 0.0, "adam_beta2": 0.95, "max_grad_norm": 1.0, "optim": "adamw_torch_fused", "seed": 0,
    "dataloader_pin_memory": False, "lr_scheduler_type": "constant",
}  # fmt: skip


def settings_of(shape: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of every trainer, in the contest's precision."""
    return PLAIN | {"bf16": shape["dtype"] == "bfloat16"}


def open_model(
    shape: Mapping[str, Any], trains: str
) -> tuple[PreTrainedModel | peft.PeftModel, PreTrainedTokenizerBase]:
    """The model with SDPA, with PEFT's adapters or whole."""
    model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(shape["model"], dtype=shape["weights"])
    tokenizer = AutoTokenizer.from_pretrained(shape["model"])
    if trains == "lora":
        config = peft.LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules="all-linear", lora_dropout=0.0, bias="none")
        return peft.get_peft_model(model, config), tokenizer
    return model, tokenizer


class AroundSteps(TrainerCallback):
    """Calls back where an update begins and where the weights have moved."""

    def __init__(self, begin: Callable[[], None], end: Callable[[], None]) -> None:
        self._begin, self._end = begin, end

    def on_step_begin(self, *args: object, **kwargs: object) -> None:
        """The rows are there, nothing is computed."""
        self._begin()

    def on_step_end(self, *args: object, **kwargs: object) -> None:
        """The optimiser has stepped."""
        self._end()
