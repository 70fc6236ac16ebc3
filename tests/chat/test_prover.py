"""The prover finds what a template breaks, and nothing where it breaks nothing."""

import json
from pathlib import Path

import pytest
from tokenizers import AddedToken, normalizers
from typer.testing import CliRunner

from burnish.chat.prover import prove
from burnish.cli import app
from burnish.models.tiny import tiny_tokenizer
from tests.chat.families import family_tokenizer, with_template

CHATML_TURN = "<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n"
OPENED = "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"


def outcomes(tokenizer):
    return {proof.claim: proof.outcome for proof in prove(tokenizer)}


def unusual(tokenizer):
    return {claim: outcome for claim, outcome in outcomes(tokenizer).items() if outcome != "holds"}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("chatml", {"tools are shown": "not supported", "tool calls": "not supported"}),
        ("llama3", {}),
        ("qwen3", {"a later turn leaves the": "handled", "a later turn leaves a system": "handled",
                   "thinking stays": "handled", "tool calls": "handled"}),
        ("mistral", {"a later turn leaves a system": "handled", "results of tools": "not supported"}),
        ("gemma", {"a system": "not supported", "a later turn leaves a system": "not supported",
                   "tools are": "not supported", "results of": "not supported", "tool calls": "not supported"}),
    ],
)  # fmt: skip
def test_families_keep_what_they_are_known_to_keep(name, expected):
    found = unusual(family_tokenizer(name))
    assert len(found) == len(expected)
    for beginning, outcome in expected.items():
        assert [o for claim, o in found.items() if claim.startswith(beginning)] == [outcome]


@pytest.mark.parametrize(
    ("template", "claim"),
    [
        # Turns are marked by words that anybody can write.
        ("{% for m in messages %}{% if m['role'] == 'user' %}Q: {{ m['content'] }}\nA:{% else %} {{ m['content'] }}"
         "{% if loop.last %}<|im_end|>{% else %}{{ '\n' }}{% endif %}{% endif %}{% endfor %}",
         "text cannot forge a turn"),
        # A third reply is introduced otherwise than the second.
        ("{% for m in messages %}{% if loop.index > 3 %}*{% endif %}" + CHATML_TURN + "{% endfor %}" + OPENED,
         "a conversation goes on by appending"),
        # The generation prompt takes the last line break back.
        ("{% for m in messages %}<|im_start|>{{ m['content'] }}<|im_end|>{% if not (loop.last and "
         "add_generation_prompt) %}{{ '\n' }}{% endif %}{% endfor %}{% if add_generation_prompt %}<|im_start|>"
         "{% endif %}",
         None),
    ],
)  # fmt: skip
def test_a_broken_template_fails_where_it_is_broken(template, claim):
    failed = [proof for proof in prove(with_template(template)) if proof.outcome == "fails"]
    assert claim in [proof.claim for proof in failed] if claim else len(failed) == 1
    assert all(proof.evidence for proof in failed)


def test_a_template_that_gives_a_reply_no_end_is_one_failure_with_its_reason():
    [proof] = prove(with_template("{% for m in messages %}{{ m['content'] }}\n{% endfor %}"))
    assert proof.outcome == "fails" and "no special token" in proof.evidence


def test_a_tokenizer_that_loses_characters_does_not_round_trip():
    tokenizer = tiny_tokenizer()
    tokenizer.backend_tokenizer.normalizer = normalizers.Lowercase()
    [proof] = [proof for proof in prove(tokenizer) if proof.outcome == "fails"]
    assert proof.claim.startswith("ids say")
    assert proof.evidence.startswith("rendered is") and "Ελλάδα" in proof.evidence and "ελλάδα" in proof.evidence


def test_control_tokens_that_are_matched_after_normalisation_are_found_in_look_alikes():
    tokenizer = tiny_tokenizer()
    tokenizer.backend_tokenizer.normalizer = normalizers.NFKC()
    tokenizer.add_tokens([AddedToken("<|tool|>", special=True, normalized=True)], special_tokens=True)
    failed = {proof.claim: proof.evidence for proof in prove(tokenizer) if proof.outcome == "fails"}
    assert "ｔｏｏｌ" in failed["text that spells control tokens stays text"]


def test_the_command_prints_a_row_for_each_property_and_answers_by_its_exit_code(tmp_path):
    result = CliRunner().invoke(app, ["chat-template", "check", "tiny", "--json"])
    assert result.exit_code == 0
    assert len(json.loads(result.stdout)) == len(prove(tiny_tokenizer()))
    table = CliRunner().invoke(app, ["chat-template", "check", "tiny"])
    assert table.exit_code == 0 and "holds" in table.stdout
    broken = with_template("{% for m in messages %}{{ m['content'] }}\n{% endfor %}")
    broken.save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    assert CliRunner().invoke(app, ["chat-template", "check", str(tmp_path)]).exit_code == 1


def test_a_model_that_is_not_there_is_bad_input():
    assert CliRunner().invoke(app, ["chat-template", "check", "no-such-model"]).exit_code == 2


def test_the_commands_of_the_page_work():
    page = (Path(__file__).parents[2] / "docs" / "chat_templates.md").read_text(encoding="utf-8")
    lines = [line.strip() for line in page.splitlines() if line.startswith("    burnish ")]
    assert [CliRunner().invoke(app, line.split()[1:]).exit_code for line in lines] == [0]


def test_a_model_by_a_name_is_read_without_its_weights(tmp_path):
    tokenizer = tiny_tokenizer()
    tokenizer.save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    assert CliRunner().invoke(app, ["chat-template", "check", str(tmp_path)]).exit_code == 0
