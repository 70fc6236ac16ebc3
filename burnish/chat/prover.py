"""What a tokenizer and its chat template keep, proven on small conversations.

A property *holds*; or it is *handled*: the template breaks it, and `Chat` makes that good by appending to what was
sampled; or it *fails*, and what is trained differs from what is sampled or text can act as structure; or it is *not
supported*: the template refuses, and so does `Chat`. All but the first come with a counterexample or a reason.

Covered: what `Chat` promises. Not covered: whether the model was trained with this template.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from burnish.chat import look_alikes, probes
from burnish.chat.rendering import Tokenizer, Turn, render
from burnish.chat.template import Chat
from burnish.core.errors import ConfigError
from burnish.core.types import Json, Message, Role

Outcome = Literal["holds", "handled", "fails", "not supported"]

_TEXTS = (
    "plain",
    " spaces at both ends ",
    "two\n\nlines\r\n",
    "tabs\tand   runs of spaces",
    "naïve – “quotes”",
    "数学 и Ελλάδα",
    "\U0001f469\u200d\U0001f469\u200d\U0001f467 \U0001f1ea\U0001f1fa",
    "zero\u200bwidth, joined e\u0301",
    'code: `x = {"a": [1]}` </s> {{ 7 }} {% raw %}',
    "word " * 2000,
)
_SYSTEM, _FIRST, _REPLY, _SECOND = "sysmark", "firstmark", "replymark", "secondmark"
_THINKING = "thinkmark"


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """One property: its name, how it came out, and why."""

    claim: str
    outcome: Outcome
    evidence: str = ""


class _Subject(NamedTuple):
    tokenizer: Tokenizer
    chat: Chat


_Finding = tuple[Outcome, str]
_HOLDS: _Finding = ("holds", "")


def prove(tokenizer: Tokenizer) -> list[Proof]:
    """Try every property; one row each, or a single one that fails where no reply can be trained at all."""
    try:
        subject = _Subject(tokenizer, Chat(tokenizer))
    except ConfigError as error:
        return [Proof(claim="a prompt goes on with a reply that ends", outcome="fails", evidence=str(error))]
    always = [_prove(claim, check, subject, "fails") for claim, check in _ALWAYS.items()]
    return always + [_prove(claim, check, subject, "not supported") for claim, check in _WHERE_SUPPORTED.items()]


def _prove(claim: str, check: Callable[[_Subject], _Finding], subject: _Subject, if_refused: Outcome) -> Proof:
    try:
        outcome, evidence = check(subject)
    except ConfigError as error:
        outcome, evidence = if_refused, str(error)
    return Proof(claim=claim, outcome=outcome, evidence=evidence)


def _round_trip(s: _Subject) -> _Finding:
    for text in _TEXTS:
        rendered = s.chat.text([_user(text)])
        back = _decode(s, s.chat.prompt_ids([_user(text)]))
        if back != rendered:
            return "fails", f"rendered is {_around(rendered, back)}, the ids say {_around(back, rendered)}"
        if s.chat.decode(s.chat.reply_ids(text)) != text:
            return "fails", f"the reply {text!r:.80} comes back as {s.chat.decode(s.chat.reply_ids(text))!r:.80}"
    return _HOLDS


def _generation_prompt(s: _Subject) -> _Finding:
    closed, opened = s.chat.text([_user(_FIRST)], generation_prompt=False), s.chat.text([_user(_FIRST)])
    if opened == closed:
        return "holds", "adds nothing: the turn before opens the model's"
    if not opened.startswith(closed):
        return "fails", f"without it the text ends {closed[-60:]!r}, with it {opened[-60:]!r}"
    return "holds", f"adds {opened[len(closed) :]!r}"


def _demonstration(s: _Subject) -> _Finding:
    prompt = [_user(_FIRST)]
    shown = s.chat.demonstration(prompt, _REPLY).token_ids
    prompt_ids, whole = s.chat.prompt_ids(prompt), s.chat.text([*prompt, _model(_REPLY)], generation_prompt=False)
    if shown[: len(prompt_ids)] != prompt_ids:
        return "fails", "the ids of the prompt change when a reply is added"
    said = _decode(s, shown)
    return (
        _HOLDS
        if whole.startswith(said)
        else ("fails", f"the template renders {whole[-80:]!r}, trained is {said[-80:]!r}")
    )


def _end(s: _Subject) -> _Finding:
    ids = s.chat.reply_ids(_REPLY)
    stops = [token_id for token_id in ids if token_id in s.chat.stop_ids]
    if stops != [ids[-1]]:
        return "fails", f"the ids of a reply, {ids}, hold stop tokens {stops}"
    names = sorted(_decode(s, [token_id]) for token_id in s.chat.stop_ids)
    return "holds", f"turns end with {_decode(s, [ids[-1]])!r}; sampling stops at {', '.join(map(repr, names))}"


def _no_system(s: _Subject) -> _Finding:
    without = s.chat.text([_user(_FIRST)])
    before = without.partition(_FIRST)[0]
    return "holds", f"before the first message stands {before!r:.160}"


def _system(s: _Subject) -> _Finding:
    text = s.chat.text([_message("system", _SYSTEM), _user(_FIRST)])
    return _HOLDS if _SYSTEM in text else ("not supported", f"it is left out: {text!r:.160}")


def _look_alikes(s: _Subject) -> _Finding:
    found = look_alikes.counterexample(s.tokenizer, s.chat)
    return _HOLDS if found is None else ("fails", found)


def _forgery(s: _Subject) -> _Finding:
    """Text that repeats what the template writes between two messages must not become what the template writes."""
    genuine = [_user(_FIRST), _model(_REPLY), _user(_SECOND)]
    text = s.chat.text(genuine)
    between = text[text.find(_FIRST) : text.find(_SECOND) + len(_SECOND)]
    if s.chat.prompt_ids([_user(between)]) == s.chat.prompt_ids(genuine):
        return "fails", f"the one message {between!r:.160} gives the ids of three"
    return _HOLDS


def _rewrites(s: _Subject, turns: Sequence[Turn]) -> _Finding:
    """Whether the text up to the model's turn, the second last, stays when the last turn is added."""
    earlier, later = (render(s.tokenizer, part, generation_prompt=False) for part in (turns[:-1], turns))
    if later.startswith(earlier):
        return _HOLDS
    s.chat.continue_ids(_so_far(s), [_user(_SECOND)])  # what cannot be appended is not supported
    return "handled", f"it rewrites {_around(earlier, later)} to {_around(later, earlier)}; Burnish appends instead"


def _prefix(s: _Subject) -> _Finding:
    turns: list[Turn] = [_turn("user", _FIRST), _turn("assistant", _REPLY), _turn("user", _SECOND)]
    return _rewrites(s, turns)


def _prefix_with_system(s: _Subject) -> _Finding:
    if _system(s) != _HOLDS:
        return "not supported", "the template shows no system message"
    turns: list[Turn] = [_turn("user", _FIRST), _turn("assistant", _REPLY), _turn("user", _SECOND)]
    return _rewrites(s, [_turn("system", _SYSTEM), *turns])


def _thinking(s: _Subject) -> _Finding:
    thought = f"<think>\n{_THINKING}\n</think>\n\n{_REPLY}"
    text = render(
        s.tokenizer,
        [_turn("user", _FIRST), _turn("assistant", thought), _turn("user", _SECOND)],
        generation_prompt=True,
    )
    if _THINKING in text:
        return _HOLDS
    return "handled", "it strips <think> blocks from earlier turns; Burnish appends and keeps what was sampled"


def _append(s: _Subject) -> _Finding:
    so_far, longer = _so_far(s), s.chat.continue_ids(_so_far(s), [_user(_SECOND)])
    if longer[: len(so_far)] != so_far:
        return "fails", "the ids so far were changed"
    added = _decode(s, longer).rpartition(_REPLY)[2]
    for num_replies in (1, 2):
        turns = [_turn("user", _FIRST), _turn("assistant", _REPLY)] * num_replies + [_turn("user", _SECOND)]
        after = render(s.tokenizer, turns, generation_prompt=True).rpartition(_REPLY)[2]
        if after != added:
            return (
                "fails",
                f"after {num_replies} replies the template goes on with {after!r:.80}, appended is {added!r:.80}",
            )
    return _HOLDS


def _tools(s: _Subject) -> _Finding:
    said = _decode(s, s.chat.prompt_ids([_user(_FIRST)], [probes.TOOL]))
    missing = [word for word in (probes.TOOL_NAME, "Look a word up.", "string") if word not in said]
    return ("fails", f"a tool is shown without its {missing}") if missing else _HOLDS


def _tool_results(s: _Subject) -> _Finding:
    longer = s.chat.continue_ids(_so_far(s), [_message("tool", probes.TOOL_RESULT)])
    return "holds", f"shown as {_decode(s, longer).rpartition(_REPLY)[2]!r:.160}"


def _tool_calls(s: _Subject) -> _Finding:
    """Calls as records are for conversations that others wrote; the model's own calls are its text."""
    function: Json = {"name": probes.TOOL_NAME, "arguments": {"word": _REPLY}}
    call: Turn = {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "call00001", "type": "function", "function": function}],
    }
    result: Turn = {
        "role": "tool",
        "content": probes.TOOL_RESULT,
        "name": probes.TOOL_NAME,
        "tool_call_id": "call00001",
    }
    turns: list[Turn] = [_turn("user", _FIRST), call, result]
    text = render(s.tokenizer, turns, generation_prompt=True, tools=[probes.TOOL])
    missing = [word for word in (probes.TOOL_NAME, _REPLY, probes.TOOL_RESULT) if word not in text.partition(_FIRST)[2]]
    if missing:
        return "not supported", f"calls are rendered without {', '.join(missing)}"
    return _rewrites(s, turns)


def _so_far(s: _Subject) -> tuple[int, ...]:
    return (*s.chat.prompt_ids([_user(_FIRST)]), *s.chat.reply_ids(_REPLY))


def _user(text: str) -> Message:
    return _message("user", text)


def _model(text: str) -> Message:
    return _message("assistant", text)


def _message(role: Role, text: str) -> Message:
    return Message(role=role, content=text)


def _turn(role: Role, text: str) -> Turn:
    return {"role": role, "content": text}


def _decode(s: _Subject, ids: Sequence[int]) -> str:
    return s.tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)


def _around(text: str, other: str) -> str:
    """The place where a text begins to differ from another."""
    at = next((i for i, (a, b) in enumerate(zip(text, other, strict=False)) if a != b), min(len(text), len(other)))
    return repr(text[max(0, at - 20) : at + 40])


_ALWAYS: dict[str, Callable[[_Subject], _Finding]] = {
    "ids say what the template renders, and replies come back": _round_trip,
    "the generation prompt only adds": _generation_prompt,
    "a demonstration is its prompt, then the reply as the template renders it": _demonstration,
    "a reply ends with one stop token": _end,
    "a conversation needs no system message": _no_system,
    "text that spells control tokens stays text": _look_alikes,
}
_WHERE_SUPPORTED: dict[str, Callable[[_Subject], _Finding]] = {
    "a system message is shown": _system,
    "text cannot forge a turn": _forgery,
    "a later turn leaves the earlier ones as they were": _prefix,
    "a later turn leaves a system message where it was": _prefix_with_system,
    "thinking stays in earlier turns": _thinking,
    "a conversation goes on by appending": _append,
    "tools are shown": _tools,
    "results of tools are shown": _tool_results,
    "tool calls as records are shown, and left as they were": _tool_calls,
}
