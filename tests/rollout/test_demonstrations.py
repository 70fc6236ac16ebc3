"""Oracles play episodes, and supervised training learns all their turns and nothing else."""

import pytest

from burnish.core.types import Verdict
from burnish.domains import Judgement
from burnish.rollout.demonstrations import demonstrated
from burnish.rollout.episode_metrics import episode_metrics
from burnish.runtime.local import Background
from tests.fakes import ScriptedEngine, tiny_chat
from tests.rollout.guessing_domain import TOOL, Guessing, Room
from tests.rollout.test_episodes import attempt_at, means_of


@pytest.mark.parametrize("tools", [(), (TOOL,)])
def test_an_oracle_plays_for_real_and_each_of_its_turns_trains(tools):
    domain, chat = Guessing(tools=tools), tiny_chat()
    with Background() as background:
        means = means_of(ScriptedEngine(chat, lambda prompt, sample: "never asked"), background)
        [one] = demonstrated(means, [attempt_at(domain, 3).draw])
    assert [step.observation for step in one.steps] == ["down", "up", "right"]
    sampled = [token for token, was in zip(one.token_ids, one.was_sampled, strict=True) if was]
    assert sampled == [token for step in one.steps for token in chat.reply_ids(step.reply)]
    assert one.steps[0].reply == ("```guess 5\n```" if tools else "5")
    assert episode_metrics([one])["episode/turns"] == 3 and episode_metrics([]) == {}


def test_an_oracle_that_does_not_solve_its_task_teaches_nothing():
    class Crooked(Room):
        async def verdict(self) -> Judgement:
            return Judgement(Verdict.scored(0.9, {"outcome": 0.0}), {})

    class House(Guessing):
        def environment(self, backend):
            return Crooked(slow_s=self.slow_s, trap=self.trap, log=self.log)

    with Background() as background:
        means = means_of(ScriptedEngine(tiny_chat(), lambda prompt, sample: ""), background)
        assert list(demonstrated(means, [attempt_at(House(), 3).draw])) == []
