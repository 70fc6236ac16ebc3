"""tau2-bench, its first step: what to look up first (Barres et al., https://arxiv.org/abs/2506.07982). Evaluation only.

**State**: one question: an airline's or a shop's policy for its agents, the tools of the agent, and what the customer
says of who they are and what they want (`tau2:airline`, `tau2:retail`).

**Action**: one reply with one call, `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`.

**Reward**: 1 if the call is one that only reads, and that the task's own solution makes with arguments which the
customer's words contain; else 0. This is *not* a score of tau2-bench, whose episodes have a simulated customer, many
turns and a database that must end right. It asks whether an agent begins by looking up what it was told.
Parts: `tool_call` (the reward), `name` (a right tool), `is_broken`.

Read from the package `inspect-evals` (MIT), folder `tau2`, which is looked into and not imported: tasks and policies
from its data, tools from the signatures and docstrings of its source. Tasks whose solution has no such call are left
out. Known: another sensible first look-up, which the solution happens not to make, counts as wrong. Option: `folder`,
a copy of the package's folder `tau2`.
"""

import ast
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from burnish.core.errors import ConfigError
from burnish.core.types import Json, Limits, Message, Split, Task, Verdict
from burnish.domains import Options, task_id
from burnish.domains.evaluation_only import no_options, package_folder, place
from burnish.rewards.thinking import after_thinking
from burnish.rewards.tool_calls import BrokenCall, calls_of_reply, calls_of_truth, complaint
from burnish.sandbox import Box

PACKAGE, DISTRIBUTION = "inspect_evals", "inspect-evals==0.28.0"
DOMAINS = ("airline", "retail")
READING = ("get_", "find_", "list_", "search_")
"""How the tools begin that change nothing."""
ASK = (
    "You are an agent of customer service. This is the policy:\n\n{policy}\n\nThese are your tools:\n\n{tools}\n\n"
    'The customer, in notes taken by a colleague who addressed them as "you":\n\n{customer}\n\n'
    "Which look-up do you make first? Answer with one call and nothing else:\n"
    '<tool_call>{{"name": "...", "arguments": {{...}}}}</tool_call>'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A task with its right first calls."""

    id: str
    customer: str
    calls: tuple[Mapping[str, Json], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tau2:
    """The tasks of one of its domains."""

    name: str
    policy: str
    tools: str
    cases: tuple[Case, ...]
    executes_code: bool = False

    def size(self, split: Split) -> int | None:
        """The tasks evaluate; nothing trains."""
        return 0 if split == "train" else len(self.cases)

    def task(self, split: Split, seed: int, index: int) -> Task:
        """The task at a place of the shuffled list."""
        case = self.cases[place(self.name, len(self.cases), split, seed, index)]
        ask = ASK.format(policy=self.policy, tools=self.tools, customer=case.customer)
        return Task(
            id=task_id(self.name, split, seed, index),
            domain=self.name,
            messages=(Message(role="user", content=ask),),
            truth={"calls": [dict(call) for call in case.calls]},
            gold=f"<tool_call>{json.dumps(dict(case.calls[0]), ensure_ascii=False)}</tool_call>",
            limits=Limits(max_new_tokens=128),
            tags=(f"id:{case.id}",),
            source=f"{self.name}/{case.id}",
        )

    async def verify(self, task: Task, reply: str, box: Box) -> Verdict:
        """Compare the one call with those that are right."""
        right = calls_of_truth(task.truth["calls"])
        try:
            made = calls_of_reply(after_thinking(reply) or "")
        except BrokenCall as error:
            return _verdict(0, f"a broken call: {error}", is_broken=1)
        if len(made) != 1:
            return _verdict(0, f"{len(made)} calls, expected one")
        complaints = [complaint(call, made[0], {}) for call in right]
        has_name = any(call.name == made[0].name for call in right)
        return _verdict("" in complaints, min(complaints, key=len) or "a right call", name=has_name)


def _verdict(score: bool | int, evidence: str, *, name: bool = False, is_broken: int = 0) -> Verdict:
    return Verdict.scored(
        score, {"tool_call": float(score), "name": float(name), "is_broken": float(is_broken)}, evidence
    )


def load(argument: str, options: Options) -> Tau2:
    """Open one of its domains; `ConfigError` if the package is not there."""
    name = f"tau2:{argument}"
    no_options(name, options, ["folder"])
    if argument not in DOMAINS:
        raise ConfigError(f"domain {name!r}: no domain {argument!r}; there are: {', '.join(DOMAINS)}")
    folder = (
        Path(str(options["folder"])) if "folder" in options else package_folder(PACKAGE, DISTRIBUTION, name) / "tau2"
    )
    return _open(name, folder, argument)


@lru_cache(maxsize=8)
def _open(name: str, folder: Path, argument: str) -> Tau2:
    data = folder / "data" / "domains" / argument
    try:
        tasks = json.loads((data / "tasks.json").read_text(encoding="utf-8"))
        policy = (data / "policy.txt").read_text(encoding="utf-8")
        source = (folder / argument / "tools.py").read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise ConfigError(f"domain {name!r}: cannot read its data: {error}") from None
    cases = tuple(case for task in tasks if (case := _case(task)).calls)
    return Tau2(name=name, policy=policy.strip(), tools="\n\n".join(described(source)), cases=cases)


def _case(task: Mapping[str, Json]) -> Case:
    scenario, criteria = task["user_scenario"], task["evaluation_criteria"]
    assert isinstance(scenario, dict) and isinstance(criteria, dict)
    told = scenario["instructions"]
    assert isinstance(told, dict)
    customer = "\n".join(str(told[key]) for key in ("known_info", "reason_for_call") if told.get(key))
    actions = criteria.get("actions")
    found = [_call(action) for action in (actions if isinstance(actions, list) else []) if isinstance(action, dict)]
    calls = tuple(call for call in found if _can_be_first(call, customer))
    return Case(id=str(task["id"]), customer=customer, calls=calls)


def _call(action: Mapping[str, Json]) -> dict[str, Json]:
    return {"name": action["name"], "arguments": action["arguments"]}


def _can_be_first(call: Mapping[str, Json], customer: str) -> bool:
    """Whether a call only reads, and all that it needs was said."""
    arguments = call["arguments"]
    assert isinstance(arguments, dict)
    said = customer.casefold()
    values = [str(value).casefold() for value in arguments.values()]
    return str(call["name"]).startswith(READING) and bool(values) and all(value in said for value in values)


def described(source: str) -> Iterator[str]:
    """Each tool of a file of tools: its signature and what its docstring says, up to its errors."""
    for outer in ast.parse(source).body:
        if not isinstance(outer, ast.FunctionDef) or not any(_is_tool(each) for each in outer.decorator_list):
            continue
        inner = next((each for each in outer.body if isinstance(each, ast.AsyncFunctionDef)), None)
        if inner is not None:
            about = (ast.get_docstring(inner) or "").partition("Raises:")[0].strip()
            yield f"{outer.name}({ast.unparse(inner.args)})\n{about}"


def _is_tool(decorator: ast.expr) -> bool:
    return isinstance(decorator, ast.Name) and decorator.id == "tool"
