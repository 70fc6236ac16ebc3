"""SGLang in this process: what it is told, in which order, and that nothing of this process ends with it.

The package is a fake (`fake_sglang.py`): SGLang needs a GPU. What every engine keeps is in `test_contract.py`.
"""

import atexit
import multiprocessing
import sys
import time

import pytest

from burnish.core.errors import ConfigError, EngineError
from burnish.engine import sglang
from burnish.engine.types import Request, SamplingParams
from burnish.models.lora import add_lora
from tests.engine.backends import fake_sglang

INSIDE = "sglang inside"
VERBS = ["pause_generation", "update_weights_from_disk", "flush_cache", "update_weight_version", "continue_generation"]


def sample(engine, backend, num_new=3):
    request = Request(prompt_ids=backend.prompts(1)[0], seed=1, params=SamplingParams(max_new_tokens=num_new))
    return list(engine.sample([request]))


def verbs(backend):
    return [verb for verb in backend.server.paths() if verb != "async_generate"]


def test_an_update_pauses_loads_flushes_stamps_and_resumes_in_that_order_and_once(make):
    backend = make(INSIDE)
    engine = backend.open()
    sample(engine, backend)
    backend.server.log.clear()
    backend.move()
    sample(engine, backend)
    assert verbs(backend) == VERBS


@pytest.mark.parametrize(
    ("verb", "message"),
    [
        ("pause_generation", "SGLang did not finish pause_generation within 1 s"),
        ("update_weights_from_disk", "failed in update_weights_from_disk: no such file"),
        ("flush_cache", "refused to flush its cache: values of the old weights"),
        ("update_weight_version", "says that its weights are"),
    ],
)
def test_a_verb_that_fails_is_an_error_and_nothing_samples_from_half_of_new_weights(make, verb, message):
    backend = make(INSIDE)
    engine = backend.open(**({"update_timeout_s": 1.0} if verb == "pause_generation" else {}))
    sample(engine, backend)
    backend.server.broken.add(verb)
    backend.move()
    with pytest.raises(EngineError, match=message):
        sample(engine, backend)


def test_an_adapter_is_sent_alone_and_the_old_one_goes_first(make):
    backend = make(INSIDE)
    add_lora(backend.model, rank=2, alpha=4, targets="all-linear", seed=0)
    engine = backend.open(send="adapter", engine_args={"max_lora_rank": 2, "lora_target_modules": ["all"]})
    backend.move()
    sample(engine, backend)
    backend.move()
    sample(engine, backend)
    loads = [verb for verb in verbs(backend) if "lora" in verb]
    assert loads == ["load_lora_adapter", "unload_lora_adapter", "load_lora_adapter"]
    assert "update_weights_from_disk" not in verbs(backend)
    assert backend.server.log[-1] == ("async_generate", backend.server.log[-1][1] | {"lora_path": sglang.ADAPTER})


def test_an_adapter_that_is_refused_is_an_error(make):
    backend = make(INSIDE)
    add_lora(backend.model, rank=2, alpha=4, targets="all-linear", seed=0)
    backend.server.broken.add("load_lora_adapter")
    engine = backend.open(send="adapter")
    with pytest.raises(EngineError, match="failed in load_lora_adapter: rank too large"):
        sample(engine, backend)


def test_a_sample_that_fails_is_drawn_again(make):
    backend = make(INSIDE)
    engine = backend.open()
    sample(engine, backend)
    backend.server.faults.append(ValueError("the request was aborted"))
    assert len(sample(engine, backend)) == 1


def test_samples_that_nobody_waits_for_are_aborted(make):
    backend = make(INSIDE)
    engine = backend.open()
    prompt_ids = backend.prompts(1)[0]
    short, long = (
        Request(prompt_ids=prompt_ids, seed=i, params=SamplingParams(temperature=0.1 + i, max_new_tokens=num))
        for i, num in enumerate((1, 200))
    )
    stream = engine.sample([short, long])
    next(stream)
    stream.close()
    engine.close()
    assert sum(verb.startswith("abort ") for verb in verbs(backend)) == 1


@pytest.fixture
def unregistered(monkeypatch):
    """What was taken back from what runs at exit."""
    taken, unregister = [], atexit.unregister
    monkeypatch.setattr(atexit, "unregister", lambda call: (taken.append(call), unregister(call)))
    return taken


def test_closing_ends_what_it_started_and_no_other_child(make, unregistered):
    backend = make(INSIDE)
    other = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(600,))
    other.start()
    try:
        engine = backend.open()
        (started,) = backend.fake.started
        scheduler = started._scheduler
        assert scheduler.is_alive()
        engine.close()
        assert not scheduler.is_alive() and other.is_alive()
        assert not started.tokenizer_manager._subprocess_watchdog.is_on
        assert started.shutdown in unregistered
        engine.close()
    finally:
        other.kill()
        other.join()


def test_a_start_that_fails_leaves_no_process_and_nothing_to_run_at_exit(make, unregistered):
    backend = make(INSIDE)
    backend.server.broken.add("start")
    with pytest.raises(ConfigError, match=r"SGLang does not start with .*: Rank 0 scheduler died"):
        backend.open()
    (started,) = backend.fake.started
    assert not started._scheduler.is_alive() and started.shutdown in unregistered


def test_a_package_without_the_verbs_of_an_update_is_refused_by_its_version(make, monkeypatch):
    backend = make(INSIDE)
    monkeypatch.delattr(fake_sglang.TokenizerManager, "update_weight_version")
    with pytest.raises(ConfigError, match=r"this SGLang \(0\.1\) has no update_weight_version, which"):
        backend.open()
    assert not backend.fake.started[0]._scheduler.is_alive()


def test_arguments_that_it_does_not_know_are_told_in_one_line(make):
    with pytest.raises(
        ConfigError, match=r"SGLang does not start with .*: .*unexpected keyword argument 'mem_fracton'"
    ):
        make(INSIDE).open(engine_args={"mem_fracton": 0.5})


def test_another_model_in_the_folder_is_found_out_and_its_processes_end(make):
    backend = make(INSIDE)
    backend.server.is_processed = False
    with pytest.raises(ConfigError):
        backend.open()
    assert not backend.fake.started[0]._scheduler.is_alive()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"url": "http://127.0.0.1:1"}, "say either url"),
        ({"in_process": False, "url": "http://127.0.0.1:1"}, "model and engine_args: for in_process alone"),
        ({"in_process": False}, "say either url"),
    ],
)
def test_options_that_exclude_each_other_are_refused(make, options, message):
    with pytest.raises(ConfigError, match=message):
        make(INSIDE).open(engine_args={"max_lora_rank": 2}, **options)


def test_without_the_package_the_error_says_what_to_do(make, monkeypatch):
    backend = make(INSIDE)
    monkeypatch.setitem(sys.modules, "sglang", None)
    with pytest.raises(ConfigError, match=r"in_process needs the package sglang .*; install it, or give the url"):
        backend.open()
