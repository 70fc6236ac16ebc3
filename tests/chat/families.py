"""Tokenizers of families: the bytes, a family's control tokens, and a template in its documented format."""

from pathlib import Path
from typing import NamedTuple

from tokenizers import AddedToken
from transformers import PreTrainedTokenizerFast

from burnish.models.tiny import tiny_tokenizer

TEMPLATES = Path(__file__).parent / "templates"


class Family(NamedTuple):
    """Control tokens by their part."""

    special: tuple[str, ...]
    plain: tuple[str, ...] = ()
    bos: str | None = None
    eos: str | None = None


FAMILIES = {
    "chatml": Family(()),
    "llama3": Family(
        ("<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"),
        bos="<|begin_of_text|>",
        eos="<|end_of_text|>",
    ),
    "qwen3": Family(
        (),
        ("<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"),
        eos="<|im_end|>",
    ),
    "mistral": Family(
        ("<s>", "</s>", "[INST]", "[/INST]", "[TOOL_CALLS]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]",
         "[TOOL_RESULTS]", "[/TOOL_RESULTS]"),
        bos="<s>",
        eos="</s>",
    ),
    "gemma": Family(("<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>"), bos="<bos>", eos="<eos>"),
}  # fmt: skip


def family_tokenizer(name: str) -> PreTrainedTokenizerFast:
    """The byte tokenizer dressed as a family's."""
    family, tokenizer = FAMILIES[name], tiny_tokenizer()
    tokenizer.add_tokens(
        [AddedToken(word, special=True, normalized=False) for word in family.special], special_tokens=True
    )
    tokenizer.add_tokens([AddedToken(word, special=False, normalized=False) for word in family.plain])
    tokenizer.bos_token, tokenizer.eos_token = family.bos, family.eos or "<|im_end|>"
    if name != "chatml":
        tokenizer.chat_template = (TEMPLATES / f"{name}.jinja").read_text(encoding="utf-8")
    return tokenizer


def with_template(template: str) -> PreTrainedTokenizerFast:
    """The byte tokenizer with another template."""
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = template
    return tokenizer
