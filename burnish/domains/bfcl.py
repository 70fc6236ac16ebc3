"""Berkeley function calling, one turn: `domain = "bfcl:simple_python"`. For evaluation only.

**State**: one request and the functions that may be called, as JSON. The argument names the category: simple_python,
multiple, parallel, parallel_multiple, irrelevance, live_simple, live_multiple, live_parallel, live_parallel_multiple or
live_irrelevance.

**Action**: one reply: each call as `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`, or words where no
function fits.

**Reward**: 1 if the calls are the ones that the item allows, no more and no fewer (`bfcl_matching` has the rule, and
where the leaderboard's own matcher goes wrong); in the irrelevance categories 1 for words without any call, whole or
broken. Parts: `tool_call` (the reward), `name` (the right functions), `is_broken`.

Read from the package `bfcl-eval` (Apache-2.0; Patil et al., Berkeley Function-Calling Leaderboard, ICML 2025), which is
looked into and not imported. Items whose own answer names an argument that the function does not have, leaves out a
required one, or allows no value for one, are left out: no reply could be right.
Option: `folder`, the data folder of a copy of the package.
Not covered: Java and JavaScript, several turns, memory, web search; scores are no leaderboard's, as the prompt is ours.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from burnish.core.errors import ConfigError
from burnish.core.types import Json, Limits, Message, Role, Split, Task, Verdict
from burnish.domains import Options, task_id
from burnish.domains.bfcl_matching import LEFT_OUT, Allowed, fault, is_allowed, properties
from burnish.domains.evaluation_only import no_options, package_folder, place, read_rows
from burnish.rewards.thinking import after_thinking
from burnish.rewards.tool_calls import BrokenCall, Call, calls_of_reply
from burnish.sandbox import Box

PACKAGE, DISTRIBUTION = "bfcl_eval", "bfcl-eval==2026.3.23"
CATEGORIES = (
    "simple_python", "multiple", "parallel", "parallel_multiple", "irrelevance", "live_simple", "live_multiple",
    "live_parallel", "live_parallel_multiple", "live_irrelevance",
)  # fmt: skip
ROLES: tuple[Role, ...] = ("system", "user", "assistant")
ASK = (
    "These functions can be called, each described by one line of JSON:\n{tools}\n\n{request}\n\n"
    "Answer with the calls that are needed and nothing else, each as\n"
    '<tool_call>{{"name": "...", "arguments": {{...}}}}</tool_call>\n'
    "If no function fits, or a required argument is not given, say so in words and call nothing."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One line of a category, with its answer; no answer where nothing should be called."""

    id: str
    messages: tuple[Message, ...]
    tools: Mapping[str, Json]
    answers: tuple[tuple[str, Allowed], ...]

    @property
    def gold(self) -> str:
        """A right reply: the first allowed value of each argument."""
        if not self.answers:
            return "None of these functions can do that."
        calls = [{"name": name, "arguments": self._arguments(name, allowed)} for name, allowed in self.answers]
        return "\n".join(f"<tool_call>{json.dumps(call, ensure_ascii=False)}</tool_call>" for call in calls)

    def _arguments(self, name: str, allowed: Allowed) -> dict[str, Json]:
        needed = required(self.tools[name])
        return {
            key: first_of(next(value for value in values if value != LEFT_OUT))
            for key, values in allowed.items()
            if LEFT_OUT not in values or (key in needed and len(values) > 1)
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Bfcl:
    """One category."""

    name: str
    items: tuple[Item, ...]
    executes_code: bool = False

    def size(self, split: Split) -> int | None:
        """The items evaluate; nothing trains."""
        return 0 if split == "train" else len(self.items)

    def task(self, split: Split, seed: int, index: int) -> Task:
        """The item at a place of the shuffled list."""
        item = self.items[place(self.name, len(self.items), split, seed, index)]
        return Task(
            id=task_id(self.name, split, seed, index),
            domain=self.name,
            messages=item.messages,
            truth={
                "tools": dict(item.tools),
                "answers": [[name, {key: list(values) for key, values in each.items()}] for name, each in item.answers],
            },
            gold=item.gold,
            limits=Limits(max_new_tokens=min(768, 64 + len(item.gold))),
            tags=(f"id:{item.id}",),
            source=f"bfcl/{','.join(sorted(item.tools))}"[:200],
        )

    async def verify(self, task: Task, reply: str, box: Box) -> Verdict:
        """Compare the calls of a reply with those that are allowed."""
        said = after_thinking(reply)
        if said is None or not said.strip():
            return _verdict(0, "no reply")
        try:
            calls = calls_of_reply(said)
        except BrokenCall as error:
            return _verdict(0, f"a broken call: {error}", is_broken=1)
        return judge(calls, read_answers(task.truth["answers"]), task.truth["tools"])


def judge(calls: Sequence[Call], answers: Sequence[tuple[str, Allowed]], tools: Json) -> Verdict:
    """The verdict on whole calls."""
    assert isinstance(tools, dict)
    has_names = sorted(call.name for call in calls) == sorted(name for name, _ in answers)
    if is_allowed(calls, answers, tools):
        return _verdict(1, f"{len(calls)} calls, all allowed", name=1)
    if len(calls) != len(answers):
        return _verdict(0, f"{len(calls)} calls, expected {len(answers)}", name=has_names)
    complaints = [fault(calls[0], name, allowed, tools.get(name)) for name, allowed in answers]
    return _verdict(0, min(complaints, key=len) or "the calls do not pair with what is allowed", name=has_names)


def _verdict(score: int, evidence: str, *, name: bool | int = 0, is_broken: int = 0) -> Verdict:
    parts = {"tool_call": float(score), "name": float(name), "is_broken": float(is_broken)}
    return Verdict.scored(score, parts, evidence)


def load(argument: str, options: Options) -> Bfcl:
    """Open a category; `ConfigError` if the package is not there or its data are of another form."""
    name = f"bfcl:{argument}"
    no_options(name, options, ["folder"])
    if argument not in CATEGORIES:
        raise ConfigError(f"domain {name!r}: no category {argument!r}; there are: {', '.join(CATEGORIES)}")
    folder = (
        Path(str(options["folder"])) if "folder" in options else package_folder(PACKAGE, DISTRIBUTION, name) / "data"
    )
    questions = read_rows(folder / f"BFCL_v4_{argument}.json")
    path = folder / "possible_answer" / f"BFCL_v4_{argument}.json"
    answers = {} if "irrelevance" in argument else {str(row["id"]): row["ground_truth"] for row in read_rows(path)}
    items = [_item(row, answers.get(str(row["id"]), [])) for row in questions]
    return Bfcl(name=name, items=tuple(item for item in items if _is_solvable(item)))


def _item(row: Mapping[str, Json], answer: Json) -> Item:
    turns, functions = row["question"], row["function"]
    assert isinstance(turns, list) and isinstance(functions, list) and isinstance(answer, list)
    tools = {str(tool["name"]): tool for tool in functions if isinstance(tool, dict)}
    answers = [
        (str(name), _allowed(arguments))
        for call in answer
        if isinstance(call, dict)
        for name, arguments in call.items()
    ]
    return Item(id=str(row["id"]), messages=_messages(turns[0], tools), tools=tools, answers=tuple(answers))


def _messages(turn: Json, tools: Mapping[str, Json]) -> tuple[Message, ...]:
    """The first turn, with the functions and the form of a call around its last request."""
    assert isinstance(turn, list)
    given = [Message(role=_role(each), content=str(each["content"])) for each in turn if isinstance(each, dict)]
    listed = "\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools.values())
    ask = ASK.format(tools=listed, request=given[-1].content)
    return (*given[:-1], Message(role="user", content=ask))


def _role(message: Mapping[str, Json]) -> Role:
    return next(role for role in ROLES if role == message["role"])


def read_answers(answers: Json) -> list[tuple[str, Allowed]]:
    """The answers as a truth holds them."""
    assert isinstance(answers, list)
    return [(str(each[0]), _allowed(each[1])) for each in answers if isinstance(each, list)]


def _allowed(arguments: Json) -> Allowed:
    assert isinstance(arguments, dict)
    return {key: values if isinstance(values, list) else [values] for key, values in arguments.items()}


def required(tool: Json) -> Sequence[str]:
    """The arguments that a function must have."""
    parameters = tool.get("parameters") if isinstance(tool, dict) else None
    names = parameters.get("required") if isinstance(parameters, dict) else None
    return [str(name) for name in names] if isinstance(names, list) else []


def first_of(value: Json) -> Json:
    """A value that an answer allows: of each key of an object, the first that it lists."""
    if isinstance(value, list):
        return [first_of(each) for each in value]
    if not isinstance(value, dict):
        return value
    lists = {key: values if isinstance(values, list) else [values] for key, values in value.items()}
    return {key: first_of(values[0]) for key, values in lists.items() if LEFT_OUT not in values}


def _is_solvable(item: Item) -> bool:
    """Whether the item's own answer is a call that its functions can take."""
    return all(
        name in item.tools
        and set(required(item.tools[name])) <= set(allowed) <= set(properties(item.tools[name]))
        and all(allowed.values())
        for name, allowed in item.answers
    )
