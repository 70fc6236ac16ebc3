"""The scheduler over a decode path without a model: what is fed, when, and that nothing is lost."""

import math
from dataclasses import replace
from random import Random

import pytest
import torch

from burnish.core.types import Completion
from burnish.engine.rows import Row, completion, new_group, new_row, stop_reason
from burnish.engine.scheduler import Limits, Scheduler
from burnish.engine.shaping import DeadEnd, Shaper
from burnish.engine.types import Event, Failed, Finished, Request, Sampled, SamplingParams
from burnish.models.tiny import tiny_tokenizer
from tests.fakes import ScriptedSteps, tiny_chat

CHAT = tiny_chat()
LIMITS = Limits(64)


def _scheduler(steps: ScriptedSteps, limits: Limits = LIMITS, exact: bool = False, **options) -> Scheduler:
    defaults = {"version": lambda: 0, "open_shaper": lambda request: None}
    return Scheduler(steps, CHAT, limits, exact=exact, **(defaults | options))


def _request(length: int, seed: int = 0, num_samples: int = 1, max_new_tokens: int = 8, **options) -> Request:
    prompt_ids = tuple((seed * 7 + 3 * i * i) % 200 for i in range(length))
    params = SamplingParams(max_new_tokens=max_new_tokens)
    return Request(**({"prompt_ids": prompt_ids, "seed": seed, "num_samples": num_samples, "params": params} | options))


def _run(scheduler: Scheduler, num_steps: int = 10_000) -> list[Event]:
    events: list[Event] = []
    for _ in range(num_steps):
        if scheduler.is_idle:
            return events
        events += scheduler.step()
    return events


def _completions(scheduler: Scheduler, requests: list[Request]) -> dict[tuple[int, int], Completion]:
    index_of = {scheduler.submit(request): index for index, request in enumerate(requests)}
    done = [event for event in _run(scheduler) if isinstance(event, Finished)]
    return {(index_of[event.request], event.sample): event.completion for event in done}


def _lengths(steps: ScriptedSteps) -> list[list[int]]:
    return [[len(work.token_ids) for work in fed] for fed in steps.fed]


MANY = [_request(5 + 11 * i % 60, seed=i, num_samples=1 + i % 4, max_new_tokens=3 + 5 * i % 17) for i in range(12)]


@pytest.mark.parametrize("limits", [Limits(1), Limits(3), Limits(64, 64), Limits(64)])
@pytest.mark.parametrize("capacity", [1 << 20, 160, 90])
@pytest.mark.parametrize("exact", [False, True])
def test_samples_are_the_same_whatever_the_limits_and_nothing_stays_behind(limits, capacity: int, exact: bool):
    expected = _completions(_scheduler(ScriptedSteps()), MANY)
    steps = ScriptedSteps(capacity)
    scheduler = _scheduler(steps, limits, exact)
    assert _completions(scheduler, MANY) == expected
    assert len(expected) == sum(request.num_samples for request in MANY)
    scheduler.forget()
    assert steps.num_branches == 0


def test_where_room_runs_out_the_youngest_give_way_and_draw_the_same_tokens_later():
    steps = ScriptedSteps(capacity=60)
    requests = [_request(10, seed=i, max_new_tokens=20) for i in range(4)]
    scheduler = _scheduler(steps)
    done = _completions(scheduler, requests)
    assert scheduler.counts["preempted"] > 0
    assert done == _completions(_scheduler(ScriptedSteps()), requests)
    finished = list(done)
    assert finished[0] == (0, 0)


def test_no_more_rows_decode_than_there_are_places_and_requests_begin_in_order():
    steps = ScriptedSteps()
    scheduler = _scheduler(steps, Limits(4))
    for request in MANY[:6]:
        scheduler.submit(request)
    waiting = []
    while not scheduler.is_idle:
        waiting.append(scheduler.num_waiting)
        scheduler.step()
    assert waiting[0] == 6
    assert waiting == sorted(waiting, reverse=True)
    assert max(lengths.count(1) for lengths in _lengths(steps)) == 4


def test_a_request_is_admitted_while_others_decode():
    steps = ScriptedSteps()
    scheduler = _scheduler(steps)
    scheduler.submit(_request(10, max_new_tokens=9))
    scheduler.step()
    scheduler.step()
    scheduler.submit(_request(7, seed=1))
    scheduler.step()
    assert _lengths(steps) == [[10], [1], [1, 7]]


def test_the_prompt_of_a_group_is_computed_once():
    steps = ScriptedSteps()
    done = _completions(_scheduler(steps), [_request(50, num_samples=8, max_new_tokens=4)])
    assert len({completion.token_ids for completion in done.values()}) == 8
    assert _lengths(steps) == [[50], [1] * 8, [1] * 8, [1] * 8]


def test_long_prompts_are_computed_in_chunks_beside_rows_that_decode():
    steps = ScriptedSteps()
    scheduler = _scheduler(steps, Limits(64, step_tokens=70))
    scheduler.submit(_request(10, num_samples=3, max_new_tokens=9))
    scheduler.step()
    scheduler.submit(_request(200, seed=1, max_new_tokens=1))
    events = _run(scheduler)
    assert _lengths(steps)[1:4] == [[1, 1, 1, 67], [1, 1, 1, 67], [1, 1, 1, 66]]
    assert isinstance(events[-1], Finished)


def test_exact_chunks_follow_from_the_sequence_alone():
    steps = ScriptedSteps()
    _completions(_scheduler(steps, Limits(64, step_tokens=100), exact=True), [_request(150), _request(70, seed=1)])
    spans = [n for lengths in _lengths(steps) for n in lengths if n > 1]
    assert sorted(spans) == [6, 22, 64, 64, 64]


def test_what_the_next_turn_has_in_common_is_not_computed_again():
    steps = ScriptedSteps()
    scheduler = _scheduler(steps)
    request = _request(40, max_new_tokens=30)
    scheduler.submit(request, keeps_samples=True)
    said = next(event.completion.token_ids for event in _run(scheduler) if isinstance(event, Finished))
    prompt_ids = (*request.prompt_ids, *said, 1, 2, 3)
    scheduler.submit(_request(0, prompt_ids=prompt_ids, max_new_tokens=1))
    _run(scheduler)
    assert scheduler.counts["prefix_tokens"] == 40 + 29
    assert _lengths(steps)[-1] == [1 + 3]


def test_prompts_that_begin_alike_compute_it_once_though_they_come_together():
    steps = ScriptedSteps()
    system = tuple(range(100))
    requests = [_request(0, prompt_ids=(*system, i, i + 1), seed=i, max_new_tokens=2) for i in range(5)]
    done = _completions(_scheduler(steps), requests)
    assert sum(n for lengths in _lengths(steps) for n in lengths if n > 1) == 102 + 4 * 2
    alone = [_completions(_scheduler(ScriptedSteps()), [request])[0, 0] for request in requests]
    assert [done[i, 0] for i in range(5)] == alone


def test_kept_prefixes_go_when_their_room_is_wanted():
    steps = ScriptedSteps(capacity=100)
    scheduler = _scheduler(steps)
    for seed in range(3):
        scheduler.submit(_request(40, seed=seed, max_new_tokens=10), keeps_samples=True)
        _run(scheduler)
    assert scheduler.counts["preempted"] == 0
    assert steps.num_stored <= 100


def test_a_cancelled_request_makes_no_more_events_and_gives_back_its_room():
    steps = ScriptedSteps()
    scheduler = _scheduler(steps)
    numbers = [scheduler.submit(_request(20, seed=i, num_samples=2)) for i in range(3)]
    waiting = scheduler.submit(_request(20, seed=9))
    scheduler.step()
    scheduler.cancel(numbers[1])
    scheduler.cancel(waiting)
    events = _run(scheduler)
    assert {event.request for event in events} == {numbers[0], numbers[2]}
    assert sum(isinstance(event, Finished) for event in events) == 4
    scheduler.forget()
    assert steps.num_branches == 0


def test_an_update_in_flight_stamps_each_token_and_forgets_prefixes():
    steps, versions = ScriptedSteps(), [4]
    scheduler = _scheduler(steps, version=lambda: versions[-1])
    scheduler.submit(_request(40, max_new_tokens=6))
    for _ in range(3):
        scheduler.step()
    versions.append(5)
    scheduler.submit(_request(40, max_new_tokens=2))
    done = [event.completion for event in _run(scheduler) if isinstance(event, Finished)]
    assert sorted(completion.versions for completion in done) == [(4, 4, 4, 5, 5, 5), (5, 5)]
    assert scheduler.counts["prefix_tokens"] == 0
    assert steps.num_refreshed == 1


def test_an_update_in_flight_computes_a_waiting_prompt_anew():
    steps, versions = ScriptedSteps(), [0]
    scheduler = _scheduler(steps, Limits(2), version=lambda: versions[-1])
    scheduler.submit(_request(30, num_samples=4, max_new_tokens=3))
    scheduler.step()
    versions.append(1)
    done = {event.sample: event.completion for event in _run(scheduler) if isinstance(event, Finished)}
    assert [done[sample].versions for sample in range(4)] == [(0, 1, 1), (0, 1, 1), (1, 1, 1), (1, 1, 1)]
    assert sum(n == 30 for lengths in _lengths(steps) for n in lengths) == 2


def test_tokens_are_told_as_they_come_and_a_completion_is_what_was_told():
    events = _run_all(_scheduler(ScriptedSteps()), [_request(20, num_samples=2), _request(9, seed=1)])
    for finished in [event for event in events if isinstance(event, Finished)]:
        mine = [e for e in events if isinstance(e, Sampled) and (e.request, e.sample) == finished[:2]]
        assert tuple(e.token_id for e in mine) == finished.completion.token_ids
        assert tuple(e.logprob for e in mine) == finished.completion.logprobs
        assert events.index(finished) > events.index(mine[-1])


def _run_all(scheduler: Scheduler, requests: list[Request]) -> list[Event]:
    for request in requests:
        scheduler.submit(request)
    return _run(scheduler)


@pytest.mark.parametrize("step_tokens", [64, 1024])
def test_log_probabilities_of_a_prompt_are_of_each_token_but_the_first(step_tokens: int):
    """A greedy sample is taken as the end of a prompt: its tokens have probability 1 / 2, others 1 / 398."""
    greedy = _request(60, params=SamplingParams(temperature=0, max_new_tokens=70))
    (said,) = _completions(_scheduler(ScriptedSteps()), [greedy]).values()
    prompt_ids = greedy.prompt_ids + said.token_ids
    requests = [
        Request(prompt_ids=prompt_ids, seed=1, prompt_logprobs=wanted, params=SamplingParams(max_new_tokens=3))
        for wanted in (False, True)
    ]
    done = _completions(_scheduler(ScriptedSteps(), Limits(64, step_tokens)), requests)
    assert done[0, 0].prompt_logprobs == ()
    assert done[1, 0].prompt_logprobs == pytest.approx([-math.log(398)] * 59 + [-math.log(2)] * 70)
    assert done[1, 0].token_ids == done[0, 0].token_ids


def _crowd(random: Random, number: int) -> Request:
    """One of a few prompts, so that many begin alike; all fit into 90 tokens alone."""
    length = random.choice([1, 17, 33, 40])
    options = {"num_samples": random.choice([1, 2, 5]), "max_new_tokens": random.randint(1, 40)}
    return _request(length, seed=number % 3, prompt_logprobs=random.random() < 0.2, **options)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("exact", [False, True])
def test_nothing_is_lost_or_told_twice_whatever_is_submitted_cancelled_and_updated(seed: int, exact: bool):
    """Room for 90 tokens, so that lanes give way all the time; each completion is what the request gives alone."""
    random, versions, steps = Random(seed), [0], ScriptedSteps(capacity=90)
    scheduler = _scheduler(steps, Limits(4, 64), exact, version=lambda: versions[-1])
    live: dict[int, Request] = {}
    told: dict[tuple[int, int], list[Event]] = {}
    cancelled: set[int] = set()
    while len(live) < 25 or not scheduler.is_idle:
        if len(live) < 25 and random.random() < 0.4:
            request = _crowd(random, len(live))
            live[scheduler.submit(request, keeps_samples=random.random() < 0.5)] = request
        if live and random.random() < 0.03:
            cancelled.add(number := random.choice(list(live)))
            scheduler.cancel(number)
        if random.random() < 0.02:
            versions.append(versions[-1] + 1)
        for event in scheduler.step():
            assert event.request not in cancelled
            told.setdefault(event[:2], []).append(event)
    assert scheduler.counts["preempted"] > 0
    for number, request in live.items():
        alone = _completions(_scheduler(ScriptedSteps()), [request])
        for sample in range(request.num_samples) if number not in cancelled else ():
            *tokens, finished = told[number, sample]
            assert tuple(event.token_id for event in tokens) == finished.completion.token_ids
            assert replace(finished.completion, versions=alone[0, sample].versions) == alone[0, sample]
            assert list(finished.completion.versions) == sorted(finished.completion.versions)
    scheduler.forget()
    assert steps.num_branches == 0


def test_what_is_asked_again_and_again_is_kept_once_and_what_is_short_not_at_all():
    steps = ScriptedSteps()
    scheduler = _scheduler(steps)
    for _ in range(5):
        for length in (3, 32, 50):
            scheduler.submit(_request(length, max_new_tokens=2), keeps_samples=True)
        _run(scheduler)
    assert steps.num_branches == 4


def _note(row: Row, token_id: int) -> None:
    """As if it had been drawn."""
    row.lane.token_ids.append(token_id)
    row.logprobs.append(-1.0)
    row.versions.append(0)


def _byte_ids(text: str) -> list[int]:
    """A token a byte."""
    return tiny_tokenizer().encode(text)


def test_a_stop_string_is_looked_for_in_the_text_and_not_in_a_tail_that_begins_within_a_character():
    """A tail of 8 bytes that begins with the euro sign's last byte reads as if a replacement character were there."""
    request = _request(1, params=SamplingParams(stop=("\ufffda",), max_new_tokens=99))
    row = new_row(new_group(1, request, keeps_samples=False), None)
    reasons = []
    for token_id in [*_byte_ids("€abcdefgh"), *_byte_ids("ÿ")[:1], *_byte_ids("a")]:
        _note(row, token_id)
        reasons.append(stop_reason(row, CHAT))
    assert reasons == [None] * 12 + ["stop_string"]
    assert completion(row, CHAT, "stop_string").text == "€abcdefgh"


def test_a_stop_string_of_several_bytes_ends_a_sample_with_its_last_byte():
    request = _request(1, params=SamplingParams(stop=("\n\né",), max_new_tokens=99))
    row = new_row(new_group(1, request, keeps_samples=False), None)
    for token_id in _byte_ids("né né\n\né"):
        assert not row.token_ids or stop_reason(row, CHAT) is None
        _note(row, token_id)
    assert stop_reason(row, CHAT) == "stop_string"
    assert completion(row, CHAT, "stop_string").text == "né né"


class _Ends(Shaper):
    """Lets token 7 be drawn twice, then nothing."""

    def __init__(self) -> None:
        self._num_left = 2

    def shape(self, logits_V: torch.Tensor) -> None:
        if not self._num_left:
            raise DeadEnd("no token is left")
        logits_V[:7] = logits_V[8:] = -torch.inf

    def accept(self, token_id: int) -> None:
        self._num_left -= 1


def test_a_sample_that_no_token_is_left_for_fails_alone():
    scheduler = _scheduler(ScriptedSteps(), open_shaper=lambda request: _Ends() if request.seed == 1 else None)
    events = _run_all(scheduler, [_request(5), _request(5, seed=1)])
    assert [e.token_id for e in events if isinstance(e, Sampled) and e.request == 2] == [7, 7]
    assert [type(e) for e in events if not isinstance(e, Sampled)] == [Failed, Finished]
