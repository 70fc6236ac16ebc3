"""Stage `distill`: the student goes towards a teacher that shares its vocabulary."""

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import fmean

import pytest
import torch

from burnish.core import metrics
from burnish.core.errors import ConfigError
from burnish.core.recipe import Recipe, TaskEntry, read_recipe
from burnish.core.seeds import derive
from burnish.engine.endpoint import EndpointConfig
from burnish.learner.distil import divergence_backward, score
from burnish.learner.packing import Row
from burnish.learner.policy import Policy
from burnish.models.tiny import tiny_tokenizer
from burnish.objectives import gkd
from burnish.stages.check import check_recipe
from burnish.stages.distill import Config, takes_stored
from burnish.stages.distill_teacher import EndpointTeacher, check_heads, check_vocabulary
from burnish.stages.runner import run_recipe
from tests.engine.backends.model_server import ModelServer
from tests.fakes import plain_copy, random_model

RECIPES = Path(__file__).parents[2] / "recipes"
PROMPT = tuple(range(10, 20))
ROWS = [
    Row(token_ids=(*PROMPT, 1, 2, 7, 3), was_sampled=(*[False] * 10, True, True, False, True)),
    Row(token_ids=(*PROMPT, 4, 5), was_sampled=(*[False] * 10, True, True)),
]
SFT = {"use": "sft", "num_examples": 200, "batch_size": 20, "learning_rate": 1e-2, "num_warmup": 0}
DISTILL = {
    "use": "distill", "teacher": "tiny", "num_steps": 12, "prompts_per_step": 4, "group_size": 4, "learning_rate": 3e-3,
}  # fmt: skip


def recipe(*stages: dict[str, object]) -> Recipe:
    tasks = [{"domain": "arithmetic", "num_eval": 2, "options": {"largest": 5}}]
    plain = {"name": "d", "threads": 1, "model": {"name": "tiny"}, "tasks": tasks}
    return Recipe.model_validate(plain | {"stages": list(stages)})


def distances(runs: Path, name: str, **options: object) -> list[float]:
    run_recipe(recipe(SFT, DISTILL | options), runs, resume=False)
    return [r.values[name] for r in metrics.read(runs / "d" / "metrics.jsonl") if r.stage == "1-distill"]


def student(max_pack_tokens: int = 64) -> Policy:
    model = random_model("llama").requires_grad_(True)
    return Policy(model, dict(model.named_parameters()), max_pack_tokens=max_pack_tokens)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("reverse_kl", {"objective": "opd"}),
        ("divergence", {"objective": "gkd"}),
        ("reverse_kl", {"updates_per_step": 2}),
    ],
)
def test_the_distance_to_the_teacher_falls(name: str, options: dict[str, object], tmp_path: Path) -> None:
    curve = distances(tmp_path, name, **options)
    assert curve[0] > 0.1
    assert fmean(curve[-3:]) < 0.5 * fmean(curve[:2]), curve


def test_below_one_lambda_some_steps_train_on_replies_that_the_tasks_know(tmp_path: Path) -> None:
    options = {"objective": "gkd", "student_share": 0.5, "num_steps": 6}
    run_recipe(recipe(SFT, DISTILL | options), tmp_path, resume=False)
    rows = [r.values for r in metrics.read(tmp_path / "d" / "metrics.jsonl") if r.stage == "1-distill"]
    drawn = ["divergence_stored" in row for row in rows]
    assert [("divergence" in row, "tokens_sampled" in row) for row in rows] == [(not d, not d) for d in drawn]
    assert {True, False} == set(drawn)
    stored = [row["divergence_stored"] for row in rows if "divergence_stored" in row]
    assert stored[-1] < stored[0]


def with_rows(folder: Path, golds: Sequence[str | None], **options: object) -> Recipe:
    """Stage `distill` alone on a file whose rows may lack a correct reply."""
    rows = [
        {"prompt": f"{number}", "truth": "a", "verifier": "regex"} | ({} if gold is None else {"gold": gold})
        for number, gold in enumerate(golds)
    ]
    file = folder / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    whole = recipe(DISTILL | {"objective": "gkd", "prompts_per_step": 1} | options)
    return whole.model_copy(update={"tasks": [TaskEntry(domain=f"jsonl:{file}", num_eval=2)]})


def test_a_step_whose_tasks_know_no_reply_trains_on_nothing_and_says_so(tmp_path: Path) -> None:
    whole = with_rows(tmp_path, ["a", None] * 10, student_share=0.0)
    run_recipe(whole, tmp_path, resume=False)
    rows = [row.values for row in metrics.read(tmp_path / "d" / "metrics.jsonl")]
    trained = [row["tokens_trained"] > 0 for row in rows]
    assert {True, False} == set(trained)
    assert [("divergence_stored" in row, "grad_norm" in row) for row in rows] == [(each, each) for each in trained]


def test_sources_without_correct_replies_are_told_of_before_anything_is_sampled(tmp_path: Path) -> None:
    whole = with_rows(tmp_path, [None] * 20, student_share=0.9).model_copy(update={"seed": 2})
    seed = derive(2, "train", 0)
    drawn = takes_stored(Config(teacher="tiny", objective="gkd", student_share=0.9, num_steps=12), seed)
    assert not drawn[0] and any(drawn)
    with pytest.raises(ConfigError, match="0-distill: no source of the recipe knows correct replies"):
        run_recipe(whole, tmp_path, resume=False)
    assert metrics.read(tmp_path / "d" / "metrics.jsonl") == []


@pytest.mark.parametrize(("share", "expected"), [(None, 0.0), (1.0, 0.0), (0.0, 1.0), (0.25, 0.75)])
def test_the_share_of_stored_steps_is_one_less_lambda(share: float | None, expected: float) -> None:
    given = {} if share is None else {"objective": "gkd", "student_share": share}
    config = Config(teacher="tiny", num_steps=4000, **given)
    drawn = takes_stored(config, seed=3)
    assert fmean(drawn) == pytest.approx(expected, abs=0.03)
    assert drawn[:10] == takes_stored(config.model_copy(update={"num_steps": 10}), seed=3)


def test_a_student_that_is_its_teacher_has_no_distance_and_stays(tmp_path: Path) -> None:
    run_recipe(recipe(DISTILL | {"num_steps": 1, "objective": "gkd"}), tmp_path, resume=False)
    (row,) = metrics.read(tmp_path / "d" / "metrics.jsonl")
    assert row.values["divergence"] == pytest.approx(0.0, abs=1e-6)
    assert row.values["grad_norm"] < 1e-5


def test_a_teacher_scores_the_sampled_tokens_as_a_plain_forward_does() -> None:
    teacher = random_model("llama", 1)
    for row, scored in zip(ROWS, score(teacher, ROWS, 0.7, 64), strict=True):
        ids = torch.tensor(row.token_ids)
        logprobs_T_V = (plain_copy(teacher)(ids[None]).logits[0] / 0.7).log_softmax(-1)
        chosen = [i for i, was_sampled in enumerate(row.was_sampled) if was_sampled]
        torch.testing.assert_close(
            scored, torch.stack([logprobs_T_V[i - 1, ids[i]] for i in chosen]), atol=1e-4, rtol=1e-4
        )


def test_an_endpoint_scores_as_the_model_behind_it_does() -> None:
    teacher = random_model("llama", 1)
    with ModelServer(teacher, dialect="vllm") as server:
        scored = EndpointTeacher(EndpointConfig(url=server.url, model="m")).logprobs(ROWS)
    for ours, theirs in zip(scored, score(teacher, ROWS, 1.0, 64), strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("max_pack_tokens", [64, 1])
@pytest.mark.parametrize("beta", [0.0, 0.3, 1.0])
def test_the_divergence_and_its_gradient_are_those_of_a_plain_forward(beta: float, max_pack_tokens: int) -> None:
    policy, teacher = student(), random_model("llama", 1)
    plain, plain_teacher = plain_copy(policy.model), plain_copy(teacher)
    mean = divergence_backward(
        policy, teacher, ROWS, partial(gkd.divergence, beta=beta), temperature=0.8, max_pack_tokens=max_pack_tokens
    )
    parts = []
    for row in ROWS:
        ids = torch.tensor([row.token_ids])
        before = [i - 1 for i, was_sampled in enumerate(row.was_sampled) if was_sampled]
        ours, theirs = (m(ids).logits[0, before].div(0.8).log_softmax(-1) for m in (plain, plain_teacher))
        parts.append(gkd.divergence(ours, theirs, beta=beta))
    expected = torch.cat(parts).mean()
    expected.backward()
    assert mean == pytest.approx(expected.item(), rel=1e-4)
    for name, parameter in plain.named_parameters():
        torch.testing.assert_close(policy.masters[name].grad, parameter.grad, atol=1e-5, rtol=1e-3)


def test_another_vocabulary_is_refused() -> None:
    other = tiny_tokenizer()
    check_vocabulary(tiny_tokenizer(), other, "t")
    other.add_tokens(["<tool>"])
    with pytest.raises(
        ConfigError, match=r"another vocabulary than the student: 1 tokens differ.*'<tool>' is 259 and not None"
    ):
        check_vocabulary(tiny_tokenizer(), other, "t")


def test_heads_of_other_widths_are_refused_where_whole_distributions_are_compared() -> None:
    wide = random_model("llama")
    wide.resize_token_embeddings(264)
    with pytest.raises(ConfigError, match=r"a head of 264 tokens and the student one of 259.*'opd'"):
        check_heads(random_model("llama"), wide, "t")


ENDPOINT = {"url": "http://127.0.0.1:1", "model": "m"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"teacher": "nowhere"}, "teacher: no model 'nowhere'"),
        ({"beta": 0.5}, "'opd' does not read beta; leave it out"),
        ({"student_share": 0.5}, "'opd' does not read student_share; leave it out"),
        ({"objective": "gkd", "ratio_max": 2.0}, "'gkd' does not read ratio_max"),
        ({"ratio_max": 2.0}, "ratio_max does nothing in the first update"),
        ({"updates_per_step": 5}, "updates_per_step is larger than prompts_per_step"),
        ({"objective": "gkd", "endpoint": ENDPOINT}, "which an endpoint does not give; take objective 'opd'"),
        ({"temperature": 0.7, "endpoint": ENDPOINT}, "an endpoint scores at temperature 1, and temperature is 0.7"),
    ],
)
def test_options_that_do_not_fit_are_refused_at_the_door(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_recipe(recipe(DISTILL | options))


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize(("objective", "name"), [("opd", "reverse_kl"), ("gkd", "divergence")])
def test_the_recipe_brings_the_student_to_a_teacher_that_knows_more(objective: str, name: str, tmp_path: Path) -> None:
    whole = read_recipe(RECIPES / "arithmetic_tiny.toml")
    stages = [stage for stage in whole.stages if stage["use"] in ("sft", "export")]
    run_recipe(whole.model_copy(update={"stages": stages}), tmp_path, resume=False)
    teacher = tmp_path / "arithmetic_tiny" / "final"
    assignments = [f"stages.2.teacher={teacher}", f"stages.2.objective={objective}"]
    run_recipe(read_recipe(RECIPES / "distill_tiny.toml", assignments), tmp_path, resume=False)
    rows = [r.values for r in metrics.read(tmp_path / "distill_tiny" / "metrics.jsonl") if r.stage == "2-distill"]
    assert fmean(row[name] for row in rows[-5:]) < 0.5 * fmean(row[name] for row in rows[:3])
