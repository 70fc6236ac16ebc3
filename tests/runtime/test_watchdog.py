"""A wait is told when it is long, again when it has doubled, and not while anything moves."""

import re
import threading

from burnish.runtime.watchdog import Watchdog


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def told_over(dog: Watchdog, clock: Clock, seconds: int) -> list[tuple[float, str]]:
    told: list[tuple[float, str]] = []
    for _ in range(seconds):
        clock.now_s += 1
        if (message := dog.look()) is not None:
            told.append((clock.now_s - 100, message))
    return told


def new(clock: Clock) -> Watchdog:
    return Watchdog(lambda message: None, patience_s=10, clock=clock)


def test_a_long_wait_is_told_each_time_it_has_doubled() -> None:
    clock = Clock()
    dog = new(clock)
    with dog.waiting_for(lambda: "verdicts: 3 sandboxes busy"):
        told = told_over(dog, clock, 90)
    assert told == [(s, f"waiting {s} s for verdicts: 3 sandboxes busy") for s in (10, 20, 40, 80)]


def test_a_beat_begins_the_wait_anew() -> None:
    clock = Clock()
    dog = new(clock)
    with dog.waiting_for(lambda: "samples"):
        assert told_over(dog, clock, 9) == []
        dog.beat()
        assert told_over(dog, clock, 9) == []
        assert told_over(dog, clock, 1) == [(19, "waiting 10 s for samples")]


def test_nothing_is_told_where_nothing_is_waited_for() -> None:
    clock = Clock()
    dog = new(clock)
    with dog.waiting_for(lambda: "an update"):
        clock.now_s += 5
    assert told_over(dog, clock, 60) == []


def test_an_inner_wait_is_the_one_that_is_told_and_its_end_is_progress() -> None:
    clock = Clock()
    dog = new(clock)
    with dog.waiting_for(lambda: "the step"):
        clock.now_s += 5
        with dog.waiting_for(lambda: "verdicts"):
            assert told_over(dog, clock, 10) == [(15, "waiting 10 s for verdicts")]
        assert told_over(dog, clock, 10) == [(25, "waiting 10 s for the step")]


def test_a_real_wait_is_told_by_a_second_thread() -> None:
    heard = threading.Event()
    words: list[str] = []

    def tell(message: str) -> None:
        words.append(message)
        heard.set()

    with Watchdog(tell, patience_s=0.05) as dog, dog.waiting_for(lambda: "ever"):
        assert heard.wait(10)
    assert re.fullmatch(r"waiting \d+ s for ever", words[0])  # on a busy host the thread may come late
    dog.stop()


def test_the_time_until_the_next_item_is_waited_and_the_time_spent_on_one_is_not() -> None:
    clock = Clock()
    dog = new(clock)
    told: list[str | None] = []

    def items():
        for number in range(2):
            clock.now_s += 11
            told.append(dog.look())
            yield number

    for _ in dog.each(items(), lambda: "samples"):
        clock.now_s += 50
        told.append(dog.look())
    assert told == ["waiting 11 s for samples", None] * 2


def test_a_new_wait_is_told_in_time_while_the_thread_sleeps_to_the_end_of_one_that_had_doubled() -> None:
    heard = {"verdicts": threading.Event(), "the step": threading.Event()}
    clock = Clock()

    def tell(message: str) -> None:
        heard[message.partition(" s for ")[2]].set()

    with Watchdog(tell, patience_s=0.05, clock=clock) as dog, dog.waiting_for(lambda: "the step"):
        with dog.waiting_for(lambda: "verdicts"):
            clock.now_s += 1000  # told of, the next word is due in 1000 s
            assert heard["verdicts"].wait(10)
        clock.now_s += 1
        assert heard["the step"].wait(10)
