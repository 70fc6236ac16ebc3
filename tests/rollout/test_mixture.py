import json
from collections import Counter
from pathlib import Path

import pytest

from burnish.core.errors import ConfigError
from burnish.core.recipe import TaskEntry
from burnish.core.types import Message, Split, Task, Verdict
from burnish.domains import open_domain
from burnish.rollout.mixture import Mixture, Segment, Source, held_out
from burnish.sandbox import Box


def source(*, largest: int = 9, weight: float = 1.0, num_eval: int = 10) -> Source:
    entry = TaskEntry(domain="arithmetic", weight=weight, num_eval=num_eval, options={"largest": largest})
    return Source(entry=entry, domain=open_domain(entry.domain, entry.options))


def test_sources_take_turns_by_their_weights() -> None:
    mixture = Mixture([source(weight=3), source(weight=1, largest=50)], seed=1, exclude=frozenset())
    largest = Counter(mixture.draw(i).source.entry.options["largest"] for i in range(40))
    assert largest == {9: 30, 50: 10}


def test_any_stretch_of_draws_is_mixed() -> None:
    mixture = Mixture([source(weight=1), source(weight=1, largest=50)], seed=1, exclude=frozenset())
    assert [mixture.draw(i).source.entry.options["largest"] for i in range(4)] == [9, 50, 9, 50]


def test_a_draw_depends_on_its_number_and_not_on_the_order_of_asking() -> None:
    forwards, straight = (Mixture([source()], seed=5, exclude=frozenset()) for _ in range(2))
    tasks = [forwards.draw(i).task for i in range(10)]
    assert straight.draw(9).task == tasks[9]
    assert Mixture([source()], seed=6, exclude=frozenset()).draw(9).task != tasks[9]


def test_held_out_prompts_never_train() -> None:
    one = source(num_eval=30)
    exclude = frozenset(draw.task.prompt_hash for draw in held_out([one], 7))
    mixture = Mixture([one], seed=1, exclude=exclude)
    assert len(exclude) == 30
    assert exclude.isdisjoint(mixture.draw(i).task.prompt_hash for i in range(200))


def test_a_domain_that_is_all_held_out_is_an_error_that_says_so() -> None:
    one = source(largest=1, num_eval=4)
    exclude = frozenset(draw.task.prompt_hash for draw in held_out([one], 7))
    with pytest.raises(ConfigError, match="held-out"):
        Mixture([one], seed=1, exclude=exclude).draw(0)


def test_tasks_of_entries_of_one_domain_have_ids_of_their_own() -> None:
    draws = held_out([source(largest=9), source(largest=50)], 3)
    assert len({draw.task.id for draw in draws}) == len(draws) == 20
    assert held_out([source(largest=9)], 3) == draws[:10]


def test_held_out_tasks_are_distinct_and_the_same_each_time() -> None:
    first, second = (held_out([source(num_eval=20)], 3) for _ in range(2))
    assert [d.task for d in first] == [d.task for d in second]
    assert len({d.task.prompt_hash for d in first}) == 20
    assert len(held_out([source(num_eval=20)], 3, num=5)) == 5


def test_an_old_draw_is_made_again_as_it_was(tmp_path: Path) -> None:
    rows = [{"prompt": f"Say {n}.", "truth": str(n), "verifier": "exact"} for n in range(7)]
    (tmp_path / "some.jsonl").write_text("\n".join(map(json.dumps, rows)))
    entry = TaskEntry(domain=f"jsonl:{tmp_path}/some.jsonl")
    finite = Source(entry=entry, domain=open_domain(entry.domain, entry.options))
    few, all_kept = (Mixture([source(), finite], seed=1, exclude=frozenset(), most_recent=most) for most in (3, 1000))
    drawn = [all_kept.draw(number) for number in range(40)]
    assert [few.draw(number) for number in range(40)] == drawn
    assert [few.draw(number) for number in reversed(range(40))] == drawn[::-1]
    assert drawn[1].task.id != drawn[-1].task.id


def named(name: str, *, weight: float = 1.0, num_eval: int = 10) -> Source:
    entry = TaskEntry(domain="arithmetic", group=name, weight=weight, num_eval=num_eval, options={"largest": 50})
    return Source(entry=entry, domain=open_domain(entry.domain, entry.options))


def names(mixture: Mixture, first: int, last: int) -> str:
    return "".join(mixture.draw(number).source.entry.report_name for number in range(first, last))


def test_shares_hold_from_their_first_draw_on_and_are_split_within_a_name() -> None:
    sources = [named("a", weight=3), named("a"), named("b")]
    segments = [Segment(first=5, shares={"a": 0.5, "b": 0.5}), Segment(first=21, shares={"b": 1.0})]
    mixture = Mixture(sources, seed=1, exclude=frozenset(), segments=segments)
    assert names(mixture, 0, 5).count("a") == 4
    drawn = [mixture.draw(number).source for number in range(5, 21)]
    assert [drawn.count(source) for source in sources] == [6, 2, 8]
    assert names(mixture, 21, 26) == "bbbbb"


def test_segments_that_are_told_later_give_the_draws_of_segments_that_were_known() -> None:
    sources = [named("a"), named("b"), named("c")]
    segments = [
        Segment(first=4, shares={"a": 0.6, "b": 0.3, "c": 0.1}),
        Segment(first=17, shares={"a": 0.2, "c": 0.8}, rewind_to=6),
    ]
    told, known = (Mixture(sources, seed=1, exclude=frozenset(), segments=s) for s in ([], segments))
    for number in range(30):
        for segment in segments:
            if segment.first == number:
                told.turn(segment)
        assert told.draw(number) == known.draw(number)


def test_after_a_rewind_the_tasks_since_then_come_again() -> None:
    rewound = Segment(first=10, shares={"a": 0.5, "b": 0.5}, rewind_to=4)
    mixture = Mixture([named("a"), named("b")], seed=1, exclude=frozenset(), segments=[rewound])
    ids = [mixture.draw(number).task.id for number in range(16)]
    assert sorted(ids[10:]) == sorted(ids[4:10])


def test_a_second_rewind_goes_back_to_what_the_first_had_left() -> None:
    shares = {"a": 1.0, "b": 1.0}
    segments = [
        Segment(first=8, shares={"b": 1.0}, rewind_to=2),
        Segment(first=10, shares={"b": 1.0}, rewind_to=8),
        Segment(first=11, shares=shares, rewind_to=10),
    ]
    mixture = Mixture([named("a"), named("b")], seed=1, exclude=frozenset(), segments=segments)
    ids = [mixture.draw(number).task.id for number in range(14)]
    a, b = ids[0:8:2], ids[1:8:2]
    assert ids[8:10] == b[1:3]
    assert ids[10] == b[1]
    assert {a[1], b[1]} <= set(ids[11:])  # b had taken one at draw 8, and one more at draw 10, which is let go


def test_favoured_tasks_are_drawn_that_many_times_as_often() -> None:
    entry = TaskEntry(domain="places", group="d")
    mixture = Mixture(
        [Source(entry=entry, domain=Places())], seed=1, exclude=frozenset(),
        segments=[Segment(first=0, shares={"d": 1.0}, targets={"d": {"odd": 3.0}})],
    )  # fmt: skip
    drawn = Counter(mixture.draw(number).task.source for number in range(2000))
    assert 2.6 < drawn["odd"] / drawn["even"] < 3.4
    again = Mixture(
        [Source(entry=entry, domain=Places())], seed=1, exclude=frozenset(), most_recent=1,
        segments=[Segment(first=0, shares={"d": 1.0}, targets={"d": {"odd": 3.0}})],
    )  # fmt: skip
    assert [again.draw(n).task for n in reversed(range(50))] == [mixture.draw(n).task for n in reversed(range(50))]


class Places:
    """Numbered tasks, half of them odd."""

    name = "places"
    executes_code = False

    def size(self, split: Split) -> int | None:
        return None

    def task(self, split: Split, seed: int, index: int) -> Task:
        return Task(
            id=f"places/{split}/{seed}/{index}", domain=self.name, truth={},
            messages=(Message(role="user", content=str(index)),), source="odd" if index % 2 else "even",
        )  # fmt: skip

    async def verify(self, task: Task, reply: str, box: Box) -> Verdict:
        return Verdict.scored(0.0)
