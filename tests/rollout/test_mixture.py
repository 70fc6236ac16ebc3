import json
from collections import Counter
from pathlib import Path

import pytest

from burnish.core.errors import ConfigError
from burnish.core.recipe import TaskEntry
from burnish.domains import open_domain
from burnish.rollout.mixture import Mixture, Source, held_out


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
