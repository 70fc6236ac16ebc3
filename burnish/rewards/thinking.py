"""A reply without its thinking: what stands behind the last `</think>`.

Decisions: thinking that is not closed holds no answer, so that a reply that was cut off is not paid for what it passed;
nor does a reply that opens it again behind its answer.
Not covered: thinking that a chat template opens in the prompt, which no verifier sees; `Chat.answer` leaves it out.
"""

from burnish.chat.thinking import CLOSING, OPENING


def after_thinking(reply: str) -> str | None:
    """What a reply says once it has thought; None where its thinking has no end."""
    said = reply.rpartition(CLOSING)[2]
    return None if OPENING in said else said
