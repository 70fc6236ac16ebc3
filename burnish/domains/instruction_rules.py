"""Instructions whose following a program can check, by the names that IFEval gives them.

Zhou et al., Instruction-Following Evaluation, https://arxiv.org/abs/2311.07911, table 1: an instruction has an id
such as `punctuation:no_comma` and its own arguments. A reply follows an instruction only if it says something.

Decisions: words are runs of letters, digits, apostrophes and hyphens; sentences end in `.`, `!` or `?` before a blank
or the end; both are simpler than the published tokenizer, and can differ from it by one near a bound. Keywords match
whole words in any case. Not covered: `language:response_language`, which needs a classifier, and
`length_constraints:nth_paragraph_first_word`.
"""

import json
import re
from collections.abc import Callable, Mapping

from burnish.core.types import Json

Arguments = Mapping[str, Json]
Check = Callable[[str, Arguments], bool]

WORD = re.compile(r"[\w'’-]+")
SENTENCE_END = re.compile(r"[.!?]+(?=\s|$)")
BULLET = re.compile(r"^[ \t]*[*-][ \t]+\S", re.MULTILINE)
HIGHLIGHT = re.compile(r"(?<!\*)\*[^\n*]+\*(?!\*)|\*\*[^\n*]+\*\*")
TITLE = re.compile(r"<<[^\n]+>>")
PLACEHOLDER = re.compile(r"\[[^\[\]\n]+\]")
CONSTRAINED = ("My answer is yes.", "My answer is no.", "My answer is maybe.")


def follows(instruction: str, arguments: Arguments, reply: str) -> bool:
    """Whether a reply follows one instruction."""
    return bool(reply.strip()) and CHECKS[instruction](reply, arguments)


def text_of(arguments: Arguments, key: str) -> str:
    """A text among the arguments."""
    value = arguments[key]
    assert isinstance(value, str), f"{key} is {value!r}, expected a text"
    return value


def number_of(arguments: Arguments, key: str) -> int:
    """A whole number among the arguments."""
    value = arguments[key]
    assert isinstance(value, int | float), f"{key} is {value!r}, expected a number"
    return int(value)


def texts_of(arguments: Arguments, key: str) -> list[str]:
    """A list of texts among the arguments."""
    value = arguments[key]
    assert isinstance(value, list), f"{key} is {value!r}, expected a list"
    return [str(each) for each in value]


def count(reply: str, word: str) -> int:
    """How often a word, or a phrase, stands in a reply as a whole, in any case."""
    return len(re.findall(rf"(?<!\w){re.escape(word)}(?!\w)", reply, re.IGNORECASE))


def _holds(num: int, relation: str, bound: int) -> bool:
    return num < bound if relation == "less than" else num >= bound


def _frequency(reply: str, arguments: Arguments) -> bool:
    num = count(reply, text_of(arguments, "keyword"))
    return _holds(num, text_of(arguments, "relation"), number_of(arguments, "frequency"))


def _letters(reply: str, arguments: Arguments) -> bool:
    num = reply.casefold().count(text_of(arguments, "letter").casefold())
    return _holds(num, text_of(arguments, "let_relation"), number_of(arguments, "let_frequency"))


def _words(reply: str, arguments: Arguments) -> bool:
    return _holds(len(WORD.findall(reply)), text_of(arguments, "relation"), number_of(arguments, "num_words"))


def _sentences(reply: str, arguments: Arguments) -> bool:
    num = len(SENTENCE_END.findall(reply))
    return _holds(num, text_of(arguments, "relation"), number_of(arguments, "num_sentences"))


def _paragraphs(reply: str, arguments: Arguments) -> bool:
    parts = [part for part in re.split(r"\s*\*\*\*\s*", reply.strip()) if part]
    return len(parts) == number_of(arguments, "num_paragraphs")


def _json(reply: str, arguments: Arguments) -> bool:
    text = re.sub(r"^```(?:json)?\s*|\s*```$", "", reply.strip(), flags=re.IGNORECASE)
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _capital_words(reply: str, arguments: Arguments) -> bool:
    num = sum(word.isupper() for word in WORD.findall(reply))
    return _holds(num, text_of(arguments, "capital_relation"), number_of(arguments, "capital_frequency"))


def _two(reply: str, arguments: Arguments) -> bool:
    parts = [part.strip() for part in reply.split("******")]
    return len(parts) == 2 and all(parts) and parts[0] != parts[1]


def _repeats(reply: str, arguments: Arguments) -> bool:
    prompt = text_of(arguments, "prompt_to_repeat").strip().casefold()
    said = reply.strip().casefold()
    return said.startswith(prompt) and said != prompt


def _quoted(reply: str, arguments: Arguments) -> bool:
    said = reply.strip()
    return len(said) > 2 and said.startswith('"') and said.endswith('"')


def _ends(reply: str, arguments: Arguments) -> bool:
    said = reply.strip().strip('"').casefold()
    return said.endswith(text_of(arguments, "end_phrase").strip().casefold())


CHECKS: Mapping[str, Check] = {
    "punctuation:no_comma": lambda reply, arguments: "," not in reply,
    "keywords:existence": lambda reply, arguments: all(count(reply, word) for word in texts_of(arguments, "keywords")),
    "keywords:forbidden_words": lambda reply, arguments: (
        not any(count(reply, word) for word in texts_of(arguments, "forbidden_words"))
    ),
    "keywords:frequency": _frequency,
    "keywords:letter_frequency": _letters,
    "length_constraints:number_words": _words,
    "length_constraints:number_sentences": _sentences,
    "length_constraints:number_paragraphs": _paragraphs,
    "detectable_format:json_format": _json,
    "detectable_format:title": lambda reply, arguments: TITLE.search(reply) is not None,
    "detectable_format:number_bullet_lists": lambda reply, arguments: (
        len(BULLET.findall(reply)) == number_of(arguments, "num_bullets")
    ),
    "detectable_format:number_highlighted_sections": lambda reply, arguments: (
        len(HIGHLIGHT.findall(reply)) >= number_of(arguments, "num_highlights")
    ),
    "detectable_format:constrained_response": lambda reply, arguments: any(each in reply for each in CONSTRAINED),
    "detectable_content:number_placeholders": lambda reply, arguments: (
        len(PLACEHOLDER.findall(reply)) >= number_of(arguments, "num_placeholders")
    ),
    "detectable_content:postscript": lambda reply, arguments: (
        text_of(arguments, "postscript_marker").casefold() in reply.casefold()
    ),
    "change_case:english_lowercase": lambda reply, arguments: reply == reply.lower() and any(map(str.isalpha, reply)),
    "change_case:english_capital": lambda reply, arguments: reply == reply.upper() and any(map(str.isalpha, reply)),
    "change_case:capital_word_frequency": _capital_words,
    "combination:two_responses": _two,
    "combination:repeat_prompt": _repeats,
    "startend:end_checker": _ends,
    "startend:quotation": _quoted,
}
