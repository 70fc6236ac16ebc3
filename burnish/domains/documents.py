"""Business documents to JSON: invoices, purchase orders and contract headers.

**State**: one question: an instruction that names the keys, then a short document in one of many layouts,
with several currencies, date forms and thousands marks, and with numbers, names and dates that are not asked for.

**Action**: one reply that is one JSON object; a single fenced block is unwrapped.

**Reward**: the share of the asked fields that are right (`accuracy`). Texts are compared without regard to
case and spacing, dates and amounts by value. `completeness` is the share of asked keys that are there and
`valid_json` whether the reply was a JSON object at all; both are reported, neither adds to the reward.
A reply that is no JSON object scores 0. Keys that nobody asked for change nothing: an asked key holds one
value, so that writing more of them earns nothing either.

Decisions: layouts are held out whole: `split = "train"` uses the seen ones, `"eval"` the held-out ones
(option `eval_on`: `held_out`, `seen` or `mixed`), tagged `seen_layout` and `held_out_layout`. The option
`kinds` leaves only some kinds of document. Not covered: line items, scanned pages, more than one page.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from burnish.core.errors import ConfigError
from burnish.core.seeds import derive
from burnish.core.types import Limits, Message, Split, Task, Verdict
from burnish.domains import Options, task_id
from burnish.domains.document_content import AMOUNT_KEYS, DATE_KEYS, KEYS, Document, Kind, Layout, fill
from burnish.domains.document_layouts_held_out import LAYOUTS as HELD_OUT
from burnish.domains.document_layouts_seen import LAYOUTS as SEEN
from burnish.rewards.fields import Kind as FieldKind
from burnish.rewards.fields import judge_fields
from burnish.sandbox import Box

EVAL_LAYOUTS: Mapping[str, tuple[Layout, ...]] = {"held_out": HELD_OUT, "seen": SEEN}
EVAL_CHOICES = ("held_out", "seen", "mixed")

TITLES: Mapping[Kind, str] = {"invoice": "invoice", "order": "purchase order", "contract": "contract"}
FIELD_KINDS: Mapping[str, FieldKind] = {
    **dict.fromkeys(DATE_KEYS, "date"),
    **dict.fromkeys(AMOUNT_KEYS, "amount"),
}
HINTS: Mapping[str, str] = {
    "currency": "currency (ISO code)",
    **{key: f"{key} (YYYY-MM-DD)" for key in DATE_KEYS},
    **{key: f"{key} (number)" for key in AMOUNT_KEYS},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Documents:
    """Documents drawn without end from the layouts."""

    name: str = "documents"
    executes_code: bool = False
    eval_on: str = "held_out"
    kinds: tuple[str, ...] = tuple(KEYS)

    def size(self, split: Split) -> int | None:
        """Generated without end."""
        return None

    def task(self, split: Split, seed: int, index: int) -> Task:
        """Draw a layout, then fill it."""
        rng = Random(derive(seed, self.name, split, index))
        standing = "seen" if split == "train" else self._standing(index)
        layout = rng.choice([one for one in EVAL_LAYOUTS[standing] if one.kind in self.kinds])
        document = fill(layout, rng)
        return Task(
            id=task_id(self.name, split, seed, index),
            domain=self.name,
            messages=(Message(role="user", content=prompt(layout.kind, document)),),
            truth=dict(document.truth),
            gold=gold(document),
            limits=Limits(max_new_tokens=80),
            tags=(f"{standing}_layout", layout.kind),
            source=f"documents/{layout.kind}/{layout.name}",
        )

    def _standing(self, index: int) -> str:
        if self.eval_on == "mixed":
            return "held_out" if index % 2 == 0 else "seen"
        return self.eval_on

    async def verify(self, task: Task, reply: str, box: Box) -> Verdict:
        """Compare the reply's object with the truth, field by field."""
        return judge_fields({key: str(value) for key, value in task.truth.items()}, FIELD_KINDS, reply)


def load(argument: str, options: Options) -> Documents:
    """Open the domain; it takes no argument and the options `eval_on` and `kinds`."""
    if argument:
        raise ConfigError(f"domain 'documents' takes no argument; got {argument!r}; write domain = \"documents\"")
    unknown = sorted(set(options) - {"eval_on", "kinds"})
    if unknown:
        raise ConfigError(f"domain 'documents': unknown option {unknown[0]!r}; known options: eval_on, kinds")
    eval_on, kinds = options.get("eval_on", "held_out"), options.get("kinds", list(KEYS))
    if eval_on not in EVAL_CHOICES:
        raise ConfigError(f"domain 'documents': eval_on = {eval_on!r}; expected one of: {', '.join(EVAL_CHOICES)}")
    if not isinstance(kinds, list) or not kinds or any(kind not in KEYS for kind in kinds):
        raise ConfigError(f"domain 'documents': kinds = {kinds!r}; expected a list of some of: {', '.join(KEYS)}")
    return Documents(eval_on=str(eval_on), kinds=tuple(str(kind) for kind in kinds))


def prompt(kind: Kind, document: Document) -> str:
    """The question as the policy sees it."""
    keys = ", ".join(HINTS.get(key, key) for key in KEYS[kind])
    return f"Read the {TITLES[kind]} and answer with one JSON object with the keys {keys}.\n\n{document.text}"


def gold(document: Document) -> str:
    """The reply that scores 1: amounts as numbers with two decimals, all else as text."""
    fields = [f'"{key}": ' + (value if key in AMOUNT_KEYS else f'"{value}"') for key, value in document.truth.items()]
    return "{" + ", ".join(fields) + "}"
