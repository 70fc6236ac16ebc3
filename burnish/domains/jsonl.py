"""A user's own tasks from a JSONL file: `domain = "jsonl:path/to/tasks.jsonl"`.

**State**: one question, the row's `prompt` (a string, or a list of messages with `role` and `content`).

**Action**: one reply as free text.

**Reward**: what the named verifier of `burnish.rewards` finds, in [0, 1]; most are 1 or 0, `json_fields` is the
share of right fields.

Options: `verifier` (a name; a row may name its own), `eval_fraction` (default 0.2), and the verifier's own
options, for example `fields` of `json_fields`. A row that names another verifier takes that one's defaults.
A row has `prompt` and `truth`, and may have `verifier`, `gold` (a reply that scores 1), `source` (what rows
share: they stay in one split), `id` (your own name for it), `max_new_tokens`.

Decisions: the whole file is checked when it is opened, every `gold` included, and the first fault is one
message. A row's split is a hash of its `source`, else of its prompt, so it stays where it is as the file
grows; the lowest hash is always eval and the highest always train, so no split is empty. `seed` shuffles.
Without `gold` the truth itself is one where it scores 1 (not for `regex`).
A verifier that wants a sandbox (`math` with `second_opinion = true`) gets it, and the domain then says that it
executes code. `math` and `number` have a second implementation, which looks at a sample.
Not covered: files that change while a run goes on, files larger than memory.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from random import Random

from pydantic import Field, JsonValue

from burnish.core.config import Strict, validate
from burnish.core.errors import ConfigError
from burnish.core.prompted import Prompted
from burnish.core.seeds import derive
from burnish.core.types import Json, Limits, Split, Task, Verdict, sha256_json
from burnish.domains import Options, task_id
from burnish.rewards import Verifier, verifier
from burnish.rewards.strict_json import InvalidJson, parse
from burnish.sandbox import Box

MOST_SHOWN = 60
WALL_S_IN_A_BOX = 65.0
_SURROGATE = re.compile("[\ud800-\udfff]")


class Row(Prompted):
    """One line of the file."""

    truth: JsonValue
    verifier: str | None = None
    gold: str | None = None
    source: str | None = Field(default=None, min_length=1)
    id: str | None = Field(default=None, min_length=1)
    max_new_tokens: int = Field(default=Limits().max_new_tokens, ge=1, strict=True)


class JsonlOptions(Strict):
    """The domain's own options; the rest goes to the verifier."""

    verifier: str | None = None
    eval_fraction: float = Field(default=0.2, gt=0, lt=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Jsonl:
    """The rows of one file, split in two."""

    name: str
    rows: Mapping[Split, Sequence[Row]]
    find_verifier: Callable[[str | None], Verifier]
    executes_code: bool = False

    def size(self, split: Split) -> int | None:
        """How many rows fell into the split."""
        return len(self.rows[split])

    def task(self, split: Split, seed: int, index: int) -> Task:
        """The row at a place of the split's shuffled order."""
        rows = self.rows[split]
        if not 0 <= index < len(rows):
            raise ConfigError(f"{self.name}: no task {index} in {split}; it has tasks 0 to {len(rows) - 1}")
        row = rows[_order(len(rows), derive(seed, self.name, split))[index]]
        judge = self.find_verifier(row.verifier)
        return Task(
            id=task_id(self.name, split, seed, index),
            domain=self.name,
            messages=row.messages,
            truth={"answer": row.truth, "verifier": judge.name},
            gold=_gold(row, judge),
            limits=Limits(max_new_tokens=row.max_new_tokens, verify_wall_s=_verify_wall_s(judge)),
            tags=(f"id:{row.id}",) if row.id else (),
            source=row.source or "",
        )

    async def verify(self, task: Task, reply: str, box: Box) -> Verdict:
        """Ask the row's verifier."""
        judge = self.find_verifier(str(task.truth["verifier"]))
        if judge.judge_in_box is not None:
            return await judge.judge_in_box(task.truth["answer"], reply, box)
        return judge.judge(task.truth["answer"], reply)

    async def second_opinion(self, task: Task, reply: str, box: Box) -> Verdict | None:
        """What another implementation makes of a reply, where the row's verifier has one."""
        audit = self.find_verifier(str(task.truth["verifier"])).audit
        return None if audit is None else await audit(task.truth["answer"], reply, box)


def load(argument: str, options: Options) -> Jsonl:
    """Open and check a file; `ConfigError` with file and line for the first fault."""
    name = f"jsonl:{argument}"
    if not argument:
        raise ConfigError("domain 'jsonl' needs a file; for example domain = \"jsonl:tasks.jsonl\"")
    own = {key: options[key] for key in JsonlOptions.model_fields if key in options}
    config = validate(JsonlOptions, own, f"domain {name!r}")
    find = _finder(config.verifier, {key: value for key, value in options.items() if key not in own}, name)
    rows = _read(Path(argument), find)
    return Jsonl(
        name=name,
        rows=_split(rows, config.eval_fraction, argument),
        find_verifier=find,
        executes_code=any(find(row.verifier).judge_in_box is not None for row in rows.values()),
    )


def _finder(default: str | None, options: Mapping[str, Json], name: str) -> Callable[[str | None], Verifier]:
    if default is None and options:
        raise ConfigError(
            f'domain {name!r}: options {", ".join(options)} without a verifier; name it: verifier = "number"'
        )
    of_default = verifier(default, options) if default is not None else None

    @lru_cache
    def find(row_verifier: str | None) -> Verifier:
        if of_default is not None and row_verifier in (None, of_default.name):
            return of_default
        if row_verifier is None:
            raise ConfigError('no verifier; expected one in the row or in the options: verifier = "number"')
        return verifier(row_verifier)

    return find


def _read(path: Path, find: Callable[[str | None], Verifier]) -> dict[int, Row]:
    """Parse and check every line; keys are line numbers."""
    rows = {number: _row(line, f"{path}:{number}", find) for number, line in _lines(path)}
    sources: dict[str, tuple[int, str | None]] = {}
    ids: dict[str, int] = {}
    for number, row in rows.items():
        first, source = sources.setdefault(_prompt_key(row), (number, row.source))
        if source != row.source:
            raise ConfigError(
                f"{path}:{number}: the prompt of line {first} with another source; got {row.source!r}, expected"
                f" {source!r}; give equal prompts one source, so that they stay in one split"
            )
        if row.id is not None and ids.setdefault(row.id, number) != number:
            raise ConfigError(f"{path}:{number}: id {row.id!r} is that of line {ids[row.id]}; give each row its own")
    return rows


def _lines(path: Path) -> list[tuple[int, str]]:
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise ConfigError(f"no file {str(path)!r} in {str(Path.cwd())!r}; give the path of a JSONL file") from None
    except OSError as error:
        raise ConfigError(f"cannot read {str(path)!r}: {error.strerror}; give the path of a JSONL file") from None
    except UnicodeDecodeError as error:
        line = path.read_bytes()[: error.start].count(b"\n") + 1
        raise ConfigError(f"{path}:{line}: not UTF-8 at byte {error.start}; save the file as UTF-8") from None
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if not lines:
        raise ConfigError(f"{path}: the file has no rows; expected one JSON object a line, with prompt and truth")
    return lines


def _row(line: str, where: str, find: Callable[[str | None], Verifier]) -> Row:
    try:
        is_object = isinstance(parse(line), Mapping)
    except InvalidJson as error:
        raise ConfigError(f"{where}: {error}; got {_brief(line)}, expected one JSON object on the line") from None
    if not is_object:
        raise ConfigError(f"{where}: no JSON object; got {_brief(line)}, expected prompt and truth in one object")
    data = json.loads(line)
    if _SURROGATE.search(json.dumps(data, ensure_ascii=False)):
        raise ConfigError(f"{where}: half of a surrogate pair; got {_brief(line)}, expected text that UTF-8 can write")
    row = validate(Row, data, where)
    _check(row, where, find)
    return row


def _check(row: Row, where: str, find: Callable[[str | None], Verifier]) -> None:
    try:
        judge = find(row.verifier)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None
    if complaint := judge.fault(row.truth):
        raise ConfigError(f"{where}: truth: {complaint}; expected what verifier {judge.name!r} compares with")
    if row.gold is not None and (verdict := judge.judge(row.truth, row.gold)).score != 1:
        raise ConfigError(
            f"{where}: gold scores {verdict.score}, expected 1 ({verdict.evidence}); give a reply that verifier"
            f" {judge.name!r} finds right, or leave gold out"
        )


def _split(rows: Mapping[int, Row], eval_fraction: float, path: str) -> dict[Split, list[Row]]:
    """Divide by the hash of what rows share; the ends of the order are fixed, so that both splits have some."""
    keys = {number: sha256_json(row.source or _prompt_key(row)) for number, row in rows.items()}
    lowest, highest = min(keys.values()), max(keys.values())
    if lowest == highest:
        raise ConfigError(
            f"{path}: {len(rows)} rows, but all of one source or prompt, so train or eval would be empty;"
            " give rows of at least two sources"
        )
    is_eval = {
        number: key == lowest or (key != highest and _share(key) < eval_fraction) for number, key in keys.items()
    }
    return {
        "train": [row for number, row in rows.items() if not is_eval[number]],
        "eval": [row for number, row in rows.items() if is_eval[number]],
    }


def _share(key: str) -> float:
    return int(key[:13], 16) / 16**13


def _prompt_key(row: Row) -> str:
    return sha256_json([asdict(message) for message in row.messages])


def _verify_wall_s(judge: Verifier) -> float:
    return Limits().verify_wall_s if judge.judge_in_box is None else WALL_S_IN_A_BOX


def _gold(row: Row, judge: Verifier) -> str | None:
    if row.gold is not None or not judge.truth_is_a_reply:
        return row.gold
    candidate = row.truth if isinstance(row.truth, str) else json.dumps(row.truth, ensure_ascii=False)
    return candidate if judge.judge(row.truth, candidate).score == 1 else None


@lru_cache(maxsize=16)
def _order(num_rows: int, seed: int) -> tuple[int, ...]:
    return tuple(Random(seed).sample(range(num_rows), num_rows))


def _brief(line: str) -> str:
    return ascii(line if len(line) <= MOST_SHOWN else line[:MOST_SHOWN] + "...")
