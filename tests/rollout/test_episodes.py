"""Episodes: several turns of a policy with a world between them, one stream of tokens each."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from burnish.core.config import validate
from burnish.core.errors import ConfigError
from burnish.core.recipe import EpisodesConfig, TaskEntry
from burnish.engine.local import LocalEngine, open_engine
from burnish.engine.types import SamplingParams
from burnish.learner.packing import Row
from burnish.learner.policy import Policy
from burnish.models.lora import trainable
from burnish.rollout.attempts import Attempt, Means, make_attempts
from burnish.rollout.episodes import check_trains
from burnish.rollout.judge import judge_in
from burnish.rollout.mixture import Draw, Source
from burnish.runtime.local import Background
from tests.fakes import ScriptedEngine, tiny_chat, tiny_loaded
from tests.no_box import NoBox
from tests.rollout.guessing_domain import TOOL, Guessing


@pytest.fixture
def background() -> Iterator[Background]:
    with Background() as background:
        yield background


def means_of(engine, background, **changes) -> Means:
    return Means(
        engine=engine, chat=tiny_chat(), judge=judge_in(NoBox(), num_at_once=1), background=background,
        backend=NoBox(), context=4096, **changes,
    )  # fmt: skip


def attempt_at(domain: Guessing, secret: int, num_samples: int = 1) -> Attempt:
    task = domain.task("train", 0, secret - 1)
    source = Source(entry=TaskEntry(domain=domain.name), domain=domain)
    return Attempt(task.id, Draw(0, source, task), 7, num_samples, SamplingParams(max_new_tokens=24))


def halving(prompt: str, sample: int) -> str:
    """The policy of a script: halves what is left, as the conversation tells it."""
    low, high, guess = 1, 9, 5
    for line in prompt.split("\n"):
        low, high = (
            (guess + 1, high) if line.startswith("up") else (low, guess - 1) if line.startswith("down") else (low, high)
        )
        guess = (low + high) // 2
    return str(guess)


def played(means, *attempts, is_kept=lambda group, member: False):
    return [done.trajectory for done in make_attempts(means, attempts, is_kept)]


def test_an_episode_goes_on_until_it_is_solved(background):
    domain = Guessing()
    [one] = played(means_of(ScriptedEngine(tiny_chat(), halving), background), attempt_at(domain, 7))
    assert [step.reply for step in one.steps] == ["5", "7"]
    assert [step.observation for step in one.steps] == ["up", "right"]
    assert one.verdict is not None and one.verdict.score == 1.0
    assert one.ended_by == "done"
    assert domain.log == ["reset", "stop"]


def test_what_was_sampled_is_what_is_recorded_and_never_tokenised_again(background):
    chat, engine = tiny_chat(), ScriptedEngine(tiny_chat(), halving)
    [one] = played(means_of(engine, background), attempt_at(Guessing(), 9))
    for request, step in zip(engine.requests, one.steps, strict=True):
        assert request.prompt_ids == one.token_ids[: step.first]
        assert one.token_ids[step.first : step.end] == chat.reply_ids(step.reply)
        assert all(one.was_sampled[step.first : step.end])
    assert one.num_sampled == sum(step.end - step.first for step in one.steps)
    assert {logprob for logprob, was in zip(one.logprobs, one.was_sampled, strict=True) if was} == {-1.0}
    assert {logprob for logprob, was in zip(one.logprobs, one.was_sampled, strict=True) if not was} == {0.0}


def test_calls_of_tools_are_read_and_what_is_none_is_told_and_counted(background):
    replies = iter(["let me think", "```guess 4\n```", "```guess 6\n```"])
    engine = ScriptedEngine(tiny_chat(), lambda prompt, sample: next(replies))
    [one] = played(means_of(engine, background), attempt_at(Guessing(tools=(TOOL,)), 6))
    assert [step.events[0]["kind"] for step in one.steps] == ["malformed", "guess", "guess"]
    assert one.steps[0].observation.startswith("No call.")
    assert "guess NUMBER" in tiny_chat().decode(one.token_ids[: one.prompt_length])


@pytest.mark.parametrize(
    ("fallback", "num_turns", "ended_by", "score"),
    [("end", 2, "steps", 0.0), ("ask", 3, "steps", 0.5), ("restore", 2, "steps", 0.5)],
)
def test_the_recipe_says_what_happens_when_the_turns_are_used_up(background, fallback, num_turns, ended_by, score):
    domain = Guessing(max_steps=2)
    engine = ScriptedEngine(tiny_chat(), lambda prompt, sample: "8" if "last turn" in prompt else "1")
    means = means_of(engine, background, episodes=EpisodesConfig(at_limit={"steps": fallback}))
    [one] = played(means, attempt_at(domain, 9))
    assert one.verdict is not None
    assert (len(one.steps), one.ended_by, one.verdict.score, one.stop_reason) == (num_turns, ended_by, score, "length")


def test_a_stronger_policy_takes_over_and_none_of_its_tokens_trains(background):
    async def help_with(messages):
        assert [message.role for message in messages] == ["user", *["assistant", "user"] * 2]
        return "9"

    config = EpisodesConfig(at_limit={"steps": "hand_over"}, helper={"model": "strong"})
    engine = ScriptedEngine(tiny_chat(), lambda prompt, sample: "1")
    means = means_of(engine, background, episodes=config, helper=help_with)
    [one] = played(means, attempt_at(Guessing(max_steps=2), 9))
    assert one.verdict is not None and one.verdict.score == 1.0 and one.verdict.parts["turns_of_helper"] == 1
    assert not any(one.was_sampled[one.steps[2].first : one.steps[2].end])


@pytest.mark.parametrize(
    ("limits", "ended_by"),
    [
        ({"max_tokens": 40}, "tokens"),
        ({"max_output": 5}, "output"),
        ({"max_steps": 1}, "steps"),
        ({"wall_s": 0.2}, "wall"),
    ],
)
def test_each_limit_ends_an_episode_and_says_so(background, limits, ended_by):
    engine = ScriptedEngine(tiny_chat(), lambda prompt, sample: "it may be that the number is 1")
    domain = Guessing(max_steps=100, slow_s=lambda secret: 0.1)
    [one] = played(means_of(engine, background, episodes=EpisodesConfig(**limits)), attempt_at(domain, 9))
    assert one.ended_by == ended_by
    assert domain.log == ["reset", "stop"]


def test_no_episode_waits_for_the_world_of_another(background):
    """One slow world; the quick ones go through all their turns meanwhile."""
    domain = Guessing(slow_s=lambda secret: 0.5 if secret == 1 else 0.0)
    means = means_of(tiny_engine(), background)
    ended = played(means, *(attempt_at(domain, secret) for secret in (1, 2, 3)))
    assert [one.task_id[-1] for one in ended][-1] == "0"


def test_at_most_so_many_worlds_exist_at_once(background):
    domain = Guessing()
    means = means_of(ScriptedEngine(tiny_chat(), halving), background, episodes=EpisodesConfig(max_open=2))
    assert len(played(means, *(attempt_at(domain, secret, 3) for secret in (2, 5, 9)))) == 9
    num_open = 0
    for word in domain.log:
        num_open += 1 if word == "reset" else -1
        assert 0 <= num_open <= 2


def test_an_episode_whose_machinery_fails_is_run_again_whole_and_then_recorded_as_such(background):
    domain = Guessing(trap=lambda turn: turn == 1)
    [one] = played(means_of(ScriptedEngine(tiny_chat(), halving), background), attempt_at(domain, 9))
    assert one.verdict is not None and one.verdict.kind == "infrastructure_error"
    assert domain.log.count("reset") == domain.log.count("stop") == 3


def test_a_wave_that_is_broken_off_leaves_no_world(background):
    domain = Guessing(slow_s=lambda secret: 30.0 if secret > 1 else 0.0)
    means = means_of(ScriptedEngine(tiny_chat(), lambda prompt, sample: "1"), background)
    attempts = [attempt_at(domain, secret) for secret in (1, 2, 3)]
    with closing(make_attempts(means, attempts, lambda group, member: False)) as episodes:
        next(episodes)
    assert domain.log.count("reset") == domain.log.count("stop") == 3


def test_members_that_are_kept_are_not_played_again(background):
    domain = Guessing()
    means = means_of(ScriptedEngine(tiny_chat(), halving), background)
    ended = played(means, attempt_at(domain, 2, num_samples=3), is_kept=lambda group, member: member != 1)
    assert [one.member for one in ended] == [1]


def tiny_engine() -> LocalEngine:
    return open_engine(tiny_loaded().model, tiny_chat(), max_rows=8, version=lambda: 3, options={"path": "torch"})


def test_an_episode_of_many_turns_costs_what_its_tokens_cost(background):
    """Each token goes through the model about once, however many turns come after it."""
    engine = tiny_engine()
    [one] = played(means_of(engine, background), attempt_at(Guessing(max_steps=12), 9))
    assert len(one.steps) == 12
    assert engine.counts["fed_tokens"] <= len(one.token_ids) + 16 * len(one.steps)
    again = sum(step.first for step in one.steps)
    assert again > 4 * engine.counts["fed_tokens"]


def test_the_learner_sees_an_episode_as_one_sequence_with_the_samplers_numbers(background):
    loaded = tiny_loaded()
    engine = open_engine(loaded.model, tiny_chat(), max_rows=8, version=lambda: 3, options={"path": "torch"})
    [one] = played(means_of(engine, background), attempt_at(Guessing(max_steps=4), 9))
    assert (one.oldest_version, one.newest_version) == (3, 3)
    row = Row(token_ids=one.token_ids, was_sampled=one.was_sampled, rollout_logprobs=one.logprobs)
    loaded.model.requires_grad_(True)
    policy = Policy(loaded.model, trainable(loaded.model), max_pack_tokens=2048)
    [logprobs_T] = policy.logprobs([row], 1.0)
    sampled = [logprob for logprob, was in zip(one.logprobs, one.was_sampled, strict=True) if was]
    assert len(logprobs_T) == row.num_trained == len(sampled) == one.num_sampled
    assert logprobs_T.tolist() == pytest.approx(sampled, abs=2e-4)


def test_an_episode_is_the_same_when_it_is_played_again(background):
    first, second = (
        played(means_of(tiny_engine(), background), attempt_at(Guessing(), 4, num_samples=2)) for _ in range(2)
    )
    key = lambda one: one.member  # noqa: E731
    assert [one.token_ids for one in sorted(first, key=key)] == [one.token_ids for one in sorted(second, key=key)]
    assert first[0].token_ids != first[1].token_ids


def test_a_trajectory_with_steps_comes_back_from_json(background):
    [one] = played(means_of(ScriptedEngine(tiny_chat(), halving), background), attempt_at(Guessing(), 9))
    assert type(one).from_json(one.to_json()) == one
    assert one.steps[-1].earned == 1.0
    assert replace(one, steps=()) != one


def test_what_cannot_train_is_refused_by_name():
    config = EpisodesConfig(at_limit={"wall": "hand_over"}, helper={"url": "u"})
    with pytest.raises(ConfigError, match="would pay the policy"):
        check_trains([Guessing()], config)


@pytest.mark.parametrize("options", [{"helper": {"url": "u"}}, {"at_limit": {"steps": "hand_over"}}])
def test_a_helper_and_the_fall_back_that_asks_it_go_together(options):
    with pytest.raises(ConfigError, match="go together"):
        validate(EpisodesConfig, options, "episodes")
