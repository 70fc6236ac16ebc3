"""Messages to token ids, with the tokenizer's own chat template; token ids to text.

A prompt is rendered with the generation prompt. A demonstration is that prompt's ids, untouched, then
the reply's ids, then the end-of-turn token: what is trained continues exactly what is sampled from. A
conversation goes on by appending to its ids: earlier turns are never rendered again, so that what was
sampled stays, also where the template would strip its thinking or move the system message.

A *control token* is one that the tokenizer calls special, or that the template emits. Text in a message
that spells one ("<|im_end|>") stays text (`controls`). In the model's own turns the tokens that only
models write, such as `<think>`, are left whole.

What the template puts around a reply is found by rendering a character that nothing else contains in its
place. Where it puts words of its own before a reply (an empty thinking block), a demonstration learns them.

Covered: any tokenizer with a chat template that extends a prompt by appending to it; tools and tool
results where the template shows them. Not covered: tool calls as records (a model's turn is its text),
images.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from burnish.chat import controls, probes
from burnish.chat.rendering import Tokenizer as Tokenizer
from burnish.chat.rendering import Tool, Turn, render
from burnish.chat.thinking import CLOSING, OPENING
from burnish.core.errors import ConfigError
from burnish.core.types import Json, Message, ToolCall


@dataclass(frozen=True, slots=True, kw_only=True)
class Demonstration:
    """A conversation with a reply to learn: `was_sampled` marks the reply and its end-of-turn token."""

    token_ids: tuple[int, ...]
    was_sampled: tuple[bool, ...]


class _Frame(NamedTuple):
    """What the template puts around a reply."""

    lead: str
    tail: str


class _Script(NamedTuple):
    """A conversation with its look-alikes cut by `seam` (empty: there are none); `mark` is in none of its texts."""

    messages: list[Message]
    tools: list[Tool]
    reply: str
    seam: str
    mark: str


class Chat:
    """A tokenizer's chat template, proven to continue a prompt by appending to it."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        if not tokenizer.chat_template:
            raise ConfigError(
                "the tokenizer has no chat template; use an instruction model or set tokenizer.chat_template"
            )
        self._tokenizer = tokenizer
        self._added = tokenizer.added_tokens_decoder
        prompt = self.text([probes.HELLO])
        self._opens_thinking = prompt.rstrip().endswith(OPENING)
        frame = self._frame([probes.HELLO], prompt, (), controls.unused([prompt], 1)[0])
        around_ids = self._encode(prompt) + self._encode(frame.tail)
        special = {token.content for token in self._added.values() if token.special}
        self._own_controls = controls.spelling(special | self._emitted(around_ids))
        elsewhere_ids = self._encode(frame.lead + self._with_tool + self._with_tool_result)
        self._controls = controls.spelling(special | self._emitted(around_ids + elsewhere_ids))
        self._end_ids = self._find_end(self._encode(frame.tail))
        self._end_word = tokenizer.decode(
            [self._end_ids[-1]], skip_special_tokens=False, clean_up_tokenization_spaces=False
        )
        eos = tokenizer.eos_token_id
        self.stop_ids: frozenset[int] = frozenset({self._end_ids[-1]} | ({eos} if eos is not None else set()))

    def text(self, messages: Sequence[Message], *, generation_prompt: bool = True, tools: Sequence[Tool] = ()) -> str:
        """Return what the template makes of a conversation."""
        turns = [{"role": message.role, "content": message.content} for message in messages]
        return render(self._tokenizer, turns, generation_prompt=generation_prompt, tools=tools)

    def call_text(self, call: ToolCall) -> str:
        """What the template writes in a turn that makes a call, without its end; `ConfigError` if it cannot."""
        function: dict[str, Json] = {"name": call.name, "arguments": dict(call.arguments)}
        record: Turn = {"id": "call00001", "type": "function", "function": function}
        hello: Turn = {"role": probes.HELLO.role, "content": probes.HELLO.content}
        turns: list[Turn] = [hello, {"role": "assistant", "content": "", "tool_calls": [dict(record)]}]
        text = render(self._tokenizer, turns, generation_prompt=False, tools=[probes.TOOL])
        prompt = self.text([probes.HELLO], tools=[probes.TOOL])
        if not text.startswith(prompt):
            raise ConfigError("the model's chat template does not continue its own prompt with a call of a tool")
        return text[len(prompt) :].rpartition(self.decode(self._end_ids[:-1]) + self._end_word)[0]

    def answer(self, reply: str) -> str:
        """Return what of a reply is to be judged: all, or where the template opens the thinking, what comes after it.

        Nothing, where it was not closed: a thought that was cut off holds no answer.
        """
        return reply.partition(CLOSING)[2] if self._opens_thinking else reply

    def prompt_ids(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> tuple[int, ...]:
        """Return the ids that a reply to `messages` is sampled after."""
        script = self._script(messages, tools)
        return tuple(self._encode_pieces(self.text(script.messages, tools=script.tools), script.seam))

    def continue_ids(self, ids_so_far: Sequence[int], new_messages: Sequence[Message]) -> tuple[int, ...]:
        """Return the ids so far, untouched, and those of new messages and the generation prompt after them.

        The ids so far end with a turn of the model; where it was cut short, the end of the turn is added.
        """
        if not new_messages or "assistant" in (new_messages[0].role, new_messages[-1].role):
            raise ConfigError(
                "a conversation goes on after the model's turn with what others say, and then the model replies; "
                f"got messages of roles {[message.role for message in new_messages]}"
            )
        script = self._script(new_messages)
        model_turn = Message(role="assistant", content=script.mark)
        _, found, after = self.text([probes.HELLO, model_turn, *script.messages]).partition(script.mark)
        added = self._encode_pieces(after, script.seam)
        num_end = len(self._end_ids)
        if not found or script.mark in after or tuple(added[:num_end]) != self._end_ids:
            raise ConfigError(
                "the model's chat template shows a turn of the model otherwise once others follow, so that a "
                f"conversation cannot go on by appending: after a reply came {after[:80]!r}, expected it to begin "
                f"with {self.decode(self._end_ids[:-1])!r} and the end of the turn; use single-turn tasks or another "
                "template"
            )
        has_ended = bool(ids_so_far) and ids_so_far[-1] in self.stop_ids
        return (*ids_so_far, *(added[num_end:] if has_ended else added))

    def demonstration(self, messages: Sequence[Message], reply: str, tools: Sequence[Tool] = ()) -> Demonstration:
        """Return the prompt's ids, the reply's ids and the end of the turn."""
        script = self._script(messages, tools, reply)
        prompt = self.text(script.messages, tools=script.tools)
        lead = self._lead(script, prompt)
        prompt_ids = self._encode_pieces(prompt, script.seam)
        reply_ids = [*self._encode_pieces(lead + script.reply, script.seam), *self._end_ids]
        return Demonstration(
            token_ids=(*prompt_ids, *reply_ids),
            was_sampled=(False,) * len(prompt_ids) + (True,) * len(reply_ids),
        )

    def reply_ids(self, reply: str) -> tuple[int, ...]:
        """Return the ids of a model's turn: the reply and the end of the turn."""
        script = self._script([], (), reply)
        return (*self._encode_pieces(script.reply, script.seam), *self._end_ids)

    def decode(self, token_ids: Sequence[int]) -> str:
        """Return the text of a model's turn, without the stop token that ended it."""
        ids = list(token_ids)
        if ids and ids[-1] in self.stop_ids:
            ids.pop()
        return self._tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)

    def tokenizer_json(self) -> str:
        """Return the tokenizer as the JSON that programs outside Python read."""
        if not self._tokenizer.is_fast:
            raise ConfigError("the model's tokenizer has no tokenizer.json; convert it to a fast one")
        return self._tokenizer.backend_tokenizer.to_str()

    def _script(self, messages: Sequence[Message], tools: Sequence[Tool] = (), reply: str = "") -> _Script:
        for index, message in enumerate(messages):
            controls.check_text(message.content, f"message {index} ({message.role})")
        controls.check_text(reply, "the reply")
        shown_tools = json.dumps(list(tools), ensure_ascii=False)
        controls.check_text(shown_tools, "the tools")
        if tools and probes.TOOL_NAME not in self._with_tool:
            self.text([probes.HELLO], tools=[probes.TOOL])  # the template's own reason, where it gives one
            raise ConfigError("the model's chat template shows no tools; describe them in a system message")
        if any(message.role == "tool" for message in messages) and probes.TOOL_RESULT not in self._with_tool_result:
            self.text(probes.TOOL_TURNS)
            raise ConfigError("the model's chat template shows no messages of role tool; send results as user messages")
        texts = [*(message.content for message in messages), shown_tools, reply]
        seam, mark = controls.unused(texts, 2)
        if not any(self._controls.search(text) for text in texts):
            return _Script(list(messages), list(tools), reply, "", mark)
        words = {"assistant": self._own_controls}
        return _Script(
            [
                Message(role=m.role, content=controls.cut(m.content, words.get(m.role, self._controls), seam))
                for m in messages
            ],
            [
                {
                    controls.cut(key, self._controls, seam): controls.cut_all(value, self._controls, seam)
                    for key, value in tool.items()
                }
                for tool in tools
            ],
            controls.cut(reply, self._own_controls, seam),
            seam,
            mark,
        )

    def _frame(self, messages: Sequence[Message], prompt: str, tools: Sequence[Tool], mark: str) -> _Frame:
        """Find what the template puts around a reply; proves that it appends to the prompt."""
        reply = Message(role="assistant", content=mark)
        whole = self.text([*messages, reply], generation_prompt=False, tools=tools)
        before, found, tail = whole.partition(mark)
        if not found or not before.startswith(prompt):
            raise ConfigError(
                "the model's chat template does not continue its own prompt: "
                f"expected a text that starts with {prompt[-80:]!r}, got {whole[-160:]!r}; use another template"
            )
        return _Frame(before[len(prompt) :], tail)

    def _lead(self, script: _Script, prompt: str) -> str:
        """The words of its own that the template puts before this very reply, if it does."""
        lead = self._frame(script.messages, prompt, script.tools, script.mark).lead
        reply = Message(role="assistant", content=script.reply)
        if lead and self.text([*script.messages, reply], generation_prompt=False, tools=script.tools).startswith(
            prompt + lead + script.reply
        ):
            return lead
        return ""

    def _emitted(self, token_ids: Sequence[int]) -> set[str]:
        """The added tokens among them, as words."""
        return {self._added[token_id].content for token_id in token_ids if token_id in self._added}

    @cached_property
    def _with_tool(self) -> str:
        return self._text_or_nothing([probes.HELLO], [probes.TOOL])

    @cached_property
    def _with_tool_result(self) -> str:
        return self._text_or_nothing(probes.TOOL_TURNS)

    def _text_or_nothing(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> str:
        try:
            return self.text(messages, tools=tools)
        except ConfigError:  # a template may refuse what is not asked of it yet
            return ""

    def _find_end(self, tail_ids: list[int]) -> tuple[int, ...]:
        """The ids up to the first control token after a reply: that token ends a turn."""
        for index, token_id in enumerate(tail_ids):
            added = self._added.get(token_id)
            if token_id == self._tokenizer.eos_token_id or (added and self._own_controls.fullmatch(added.content)):
                return tuple(tail_ids[: index + 1])
        raise ConfigError("the model's chat template ends a turn with no special token, so that a reply has no end")

    def _encode_pieces(self, text: str, seam: str) -> list[int]:
        return [i for piece in (text.split(seam) if seam else [text]) for i in self._encode(piece)]

    def _encode(self, text: str) -> list[int]:
        return self._tokenizer.encode(text, add_special_tokens=False)
