"""Records of evaluations: kept by what their numbers depend on."""

import pytest

from burnish.core.errors import ConfigError
from burnish.evals.runs import Store, fingerprint_of_files, from_json, harness_version
from tests.evals.eval_runs import run_of


def test_a_record_comes_back_as_it_was_kept(tmp_path):
    run = run_of([[1, 0.25], [None, 0]])
    path = Store(tmp_path).keep(run)
    assert from_json(path.read_text(), "x") == run


@pytest.mark.parametrize("other", [{"fingerprint": "f" * 64}, {"suite_hash": "g" * 64}, {"harness": "w" * 64}])
def test_a_record_is_found_for_the_same_question_alone(tmp_path, other):
    run, store = run_of([[1]]), Store(tmp_path)
    store.keep(run)
    asked = {"fingerprint": run.fingerprint, "suite_hash": run.suite_hash, "harness": run.harness}
    assert store.find(**asked) == run
    assert store.find(**{**asked, **other}) is None


def test_what_a_server_said_is_kept_and_never_taken_for_an_answer(tmp_path):
    store = Store(tmp_path)
    for began_s, score in ((1.0, 0), (2.0, 1)):
        store.keep(run_of([[score]], fingerprint="", model="http://h#m", began_s=began_s))
    assert store.find("", "h" * 64, "v" * 64) is None
    assert store.of("http://h#m")["s"].results[0].score == 1  # the newest


def test_a_model_is_found_by_name_or_by_the_start_of_its_fingerprint(tmp_path):
    store = Store(tmp_path)
    store.keep(run_of([[1]], model="a", fingerprint="abcdefgh" * 8))
    assert set(store.of("a")) == set(store.of("abcdefgh")) == {"s"}
    assert store.of("abcdefg") == {}  # too short to mean one model


@pytest.mark.parametrize(
    ("text", "message"), [("{", "no results"), ('{"format": 9}', "format 9"), ("[]", "no results")]
)
def test_a_file_of_something_else_is_refused(text, message):
    with pytest.raises(ConfigError, match=message):
        from_json(text, "x.json")


def test_a_fingerprint_follows_weights_and_tokenizer_and_nothing_else(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"w")
    (tmp_path / "tokenizer.json").write_bytes(b"t")
    first = fingerprint_of_files(tmp_path)
    (tmp_path / "README.md").write_text("more")
    assert fingerprint_of_files(tmp_path) == first
    (tmp_path / "tokenizer.json").write_bytes(b"u")
    assert fingerprint_of_files(tmp_path) != first


def test_the_harness_has_one_version():
    assert len(harness_version()) == 64
