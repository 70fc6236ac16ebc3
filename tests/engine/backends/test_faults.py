"""What servers do wrong: each fault is met, told by name, or outlived where asking again is safe."""

import pytest

from burnish.core.errors import ConfigError, EngineError
from burnish.engine.types import Failed, Request, SamplingParams
from burnish.models.lora import add_lora
from tests.engine.backends.model_server import ModelServer
from tests.fakes import random_model

SERVED = pytest.mark.parametrize("kind", ["vllm", "sglang", "http"])
FOLLOWING = pytest.mark.parametrize("kind", ["vllm", "sglang"])


def request(backend, num_samples=1, **params):
    params = {"max_new_tokens": 3} | params
    return Request(prompt_ids=backend.prompts(1)[0], seed=1, num_samples=num_samples, params=SamplingParams(**params))


@SERVED
@pytest.mark.parametrize("fault", [429, 500, 503, "half_closed"])
def test_a_sample_outlives_a_fault_that_passes(make, kind, fault):
    backend = make(kind)
    engine = backend.open()
    wanted = list(engine.sample([request(backend)]))
    backend.server.faults.append(fault)
    assert list(engine.sample([request(backend)])) == wanted


@SERVED
@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("nan", "log-probability nan"),
        ("null", "log-probability None"),
        ("no_token_ids", "no token ids came back"),
        ("longer_prompt", "a prompt of"),
        ("abort", "ended by 'abort'"),
    ],
)
def test_a_sample_that_cannot_be_believed_fails_and_is_not_filled_in(make, kind, fault, message):
    backend = make(kind)
    engine = backend.open()
    list(engine.sample([request(backend)]))
    backend.server.faults.append(fault)
    number = engine.submit(request(backend))
    (event,) = engine.step()
    assert isinstance(event, Failed) and event.request == number
    assert message in str(event.error)


@SERVED
def test_a_failed_sample_is_drawn_again_and_then_it_is_an_error(make, kind):
    backend = make(kind)
    engine = backend.open()
    list(engine.sample([request(backend)]))
    backend.server.faults.extend(["nan", "null"])
    (done,) = engine.sample([request(backend)])
    assert all(logprob < 0 for logprob in done.completion.logprobs)
    backend.server.faults.extend(["nan", "null", "nan"])
    with pytest.raises(EngineError, match="log-probability nan"):
        list(engine.sample([request(backend)]))


@SERVED
def test_a_server_that_is_too_slow_is_an_error_that_names_the_request(make, kind):
    backend = make(kind)
    engine = backend.open(timeout_s=0.5)
    list(engine.sample([request(backend)]))
    backend.server.faults.extend(["slow"] * 3)
    with pytest.raises(EngineError, match=r"POST /\S+ at http://127.0.0.1:\d+: no answer within 0.5 s"):
        list(engine.sample([request(backend)]))


@SERVED
def test_a_server_that_is_gone_is_an_error_that_says_so(make, kind):
    backend = make(kind)
    engine = backend.open(most_tries=2)
    list(engine.sample([request(backend)]))
    backend.server.__exit__()
    with pytest.raises(EngineError, match="after 2 tries; is the server running"):
        list(engine.sample([request(backend)]))


@FOLLOWING
def test_raw_log_probabilities_are_found_out_when_the_engine_is_opened(make, kind):
    backend = make(kind, server=ModelServer(random_model("llama"), dialect=kind, is_processed=False))
    with pytest.raises(ConfigError, match=r"gaps between tokens are 1\.00 times .* expected 2\.00"):
        backend.open()


@FOLLOWING
def test_another_model_behind_the_server_is_found_out(make, kind):
    backend = make(kind, server=ModelServer(random_model("llama", seed=9), dialect=kind))
    backend.server.broken |= {"/collective_rpc", "/update_weights_from_disk"}
    backend.server.broken_is_silent = True
    engine = backend.open()
    with pytest.raises(EngineError, match="other weights than the learner trains"):
        list(engine.sample([request(backend)]))


RESET = {"vllm": "/reset_prefix_cache", "sglang": "/flush_cache"}
LOAD = {"vllm": "/collective_rpc", "sglang": "/update_weights_from_disk"}
RESUME = {"vllm": "/resume", "sglang": "/continue_generation"}
PAUSE = {"vllm": "/pause", "sglang": "/pause_generation"}


@FOLLOWING
def test_a_refused_reset_of_the_cache_is_an_error_and_the_server_stays_paused(make, kind):
    backend = make(kind)
    engine = backend.open()
    backend.server.broken.add(RESET[kind])
    with pytest.raises(EngineError, match=r"refused to (reset its prefix|flush its) cache"):
        list(engine.sample([request(backend)]))
    assert not backend.server.running.is_set()
    backend.server.broken.clear()
    assert list(engine.sample([request(backend)]))


@FOLLOWING
def test_a_version_that_stays_behind_is_an_error(make, kind):
    backend = make(kind)
    engine = backend.open()
    backend.server.broken.add("/update_weight_version")
    with pytest.raises(EngineError, match="'default' after they were updated to 'v3-"):
        list(engine.sample([request(backend)]))


def test_a_sample_of_other_weights_is_refused_where_the_server_tells(make):
    backend = make("sglang")
    engine = backend.open()
    list(engine.sample([request(backend)]))
    backend.server.label = "somebody else's"
    with pytest.raises(EngineError, match='comes from weights "somebody else\'s"'):
        list(engine.sample([request(backend)]))


@FOLLOWING
def test_a_verb_that_hangs_is_named(make, kind):
    backend = make(kind)
    engine = backend.open(update_timeout_s=0.5)
    backend.server.broken.add(PAUSE[kind])
    with pytest.raises(EngineError, match=rf"POST {PAUSE[kind]}\S* at .* no answer within 0.5 s"):
        list(engine.sample([request(backend)]))


@FOLLOWING
def test_an_update_pauses_loads_resets_stamps_and_resumes_in_that_order_and_once(make, kind):
    backend = make(kind)
    engine = backend.open()
    list(engine.sample([request(backend)]))
    list(engine.sample([request(backend)]))
    verbs = [PAUSE[kind], LOAD[kind], RESET[kind], "/update_weight_version", RESUME[kind]]
    assert [path for path in backend.server.paths() if path in verbs] == verbs


@FOLLOWING
def test_weights_that_come_back_under_an_old_version_are_sent_again(make, kind):
    backend = make(kind)
    engine = backend.open()
    list(engine.sample([request(backend)]))
    backend.move(0.05)
    backend.state.version = 3
    list(engine.sample([request(backend)]))
    assert backend.server.paths().count(LOAD[kind]) == 2


@FOLLOWING
def test_an_adapter_is_sent_alone_and_is_what_samples(make, kind):
    backend = make(kind)
    add_lora(backend.model, rank=4, alpha=8.0, targets="all-linear", seed=0)
    engine = backend.open(send="adapter", tolerance=1e-3)
    assert list(engine.sample([request(backend)]))
    backend.move(0.3)
    assert list(engine.sample([request(backend)]))
    assert LOAD[kind] not in backend.server.paths()


def test_an_adapter_cannot_be_sent_where_the_model_has_none(make):
    with pytest.raises(ConfigError, match="needs a model with"):
        make("vllm").open(send="adapter")


def test_no_more_requests_are_under_way_than_rows(make):
    backend = make("http")
    engine = backend.open()
    assert len(list(engine.sample([request(backend, num_samples=14, max_new_tokens=2)]))) == 14
    assert 1 < backend.server.most_under_way <= 8


@SERVED
def test_samples_that_nobody_waits_for_are_given_up(make, kind):
    backend = make(kind)
    engine = backend.open()
    stream = engine.sample([request(backend, num_samples=24, max_new_tokens=8)])
    next(stream)
    stream.close()
    engine.close()
    assert sum(path in ("/v1/completions", "/generate") for path in backend.server.paths()) < 24


def test_a_policy_that_moves_is_refused_over_an_endpoint_of_fixed_weights(make):
    backend = make("http")
    engine = backend.open()
    list(engine.sample([request(backend)]))
    backend.move(0.05)
    with pytest.raises(ConfigError, match="takes no weights"):
        list(engine.sample([request(backend)]))


def test_an_endpoint_without_token_ids_is_no_engine(make):
    backend = make("http")
    backend.server.faults.append("no_token_ids")
    with pytest.raises(ConfigError, match="gives no token ids"):
        backend.open()


@pytest.mark.parametrize("options", [{"top_p": 0.9}, {"top_k": 3}, {"min_p": 0.1}])
def test_filters_are_refused_where_log_probabilities_come_before_them(make, options):
    backend = make("sglang")
    engine = backend.open()
    with pytest.raises(ConfigError, match=f"before {next(iter(options))}"):
        list(engine.sample([request(backend, **options)]))


@SERVED
def test_a_lora_adapter_by_request_is_refused(make, kind):
    backend = make(kind)
    engine = backend.open()
    with pytest.raises(ConfigError, match=r"no adapter 'other'.*leave Request\.adapter out"):
        list(engine.sample([Request(prompt_ids=(1, 2), seed=0, adapter="other")]))


@SERVED
def test_log_probabilities_of_a_prompt_that_the_server_does_not_give_are_an_error_at_once(make, kind):
    backend = make(kind)
    engine = backend.open()
    list(engine.sample([request(backend)]))
    backend.server.faults.append("no_prompt_logprobs")
    with pytest.raises(ConfigError, match=r"leave Request\.prompt_logprobs out, or sample with engine"):
        list(engine.sample([Request(prompt_ids=(1, 2), seed=0, prompt_logprobs=True)]))


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("vllm", {"urll": "x"}, "unknown key 'urll'; did you mean 'url'"),
        ("vllm", {"in_process": True}, "say either url"),
        ("vllm", {"model": "other"}, "serves no model 'other'; there are: starter"),
        ("http", {"api_key_env": "BURNISH_NOT_SET"}, "set the environment variable BURNISH_NOT_SET"),
        ("sglang", {"folder": "/not/there"}, "is no folder"),
    ],
)
def test_an_option_that_cannot_be_honoured_is_refused_when_the_engine_is_opened(make, kind, options, message):
    with pytest.raises(ConfigError, match=message):
        make(kind).open(**options)


def test_a_key_is_not_sent_in_the_clear_to_another_host(make, monkeypatch):
    monkeypatch.setenv("BURNISH_TEST_KEY", "secret")
    with pytest.raises(ConfigError, match="in the clear"):
        make("http").open(url="http://example.org:8000", api_key_env="BURNISH_TEST_KEY")
