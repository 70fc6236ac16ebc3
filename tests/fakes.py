"""Stand-ins that tests share: a tiny loaded model, an engine that says what it is told."""

from collections.abc import Callable, Iterator, Sequence

from burnish.chat.template import Chat
from burnish.core.types import Completion
from burnish.engine.types import Finished, Request
from burnish.models.load import Loaded, load


def tiny_loaded() -> Loaded:
    """A fresh tiny model in float32 with our attention."""
    return load("tiny")


def tiny_chat() -> Chat:
    """The byte tokenizer's chat."""
    return Chat(load("tiny").tokenizer)


class ScriptedEngine:
    """An engine that replies from a script: `reply(prompt_text, sample)` for each sample, each token at logprob -1."""

    def __init__(self, chat: Chat, reply: Callable[[str, int], str], version: Callable[[], int] = lambda: 0) -> None:
        self._chat, self._reply, self._version = chat, reply, version
        self.requests: list[Request] = []

    @property
    def version(self) -> int:
        """See `Engine`."""
        return self._version()

    def sample(self, requests: Sequence[Request]) -> Iterator[Finished]:
        """See `Engine`; replies end with a stop token and are never cut."""
        self.requests.extend(requests)
        for index, request in enumerate(requests):
            for sample in range(request.num_samples):
                text = self._reply(self._chat.decode(request.prompt_ids), sample)
                yield Finished(index, sample, self._completion(text))

    def _completion(self, text: str) -> Completion:
        token_ids = self._chat.reply_ids(text)
        return Completion(
            token_ids=token_ids,
            logprobs=(-1.0,) * len(token_ids),
            text=text,
            stop_reason="eos",
            policy_version=self.version,
        )
