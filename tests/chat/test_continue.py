"""Conversations that go on: what was sampled stays, whatever the template would make of it."""

import pytest

from burnish.chat import probes
from burnish.chat.template import Chat
from burnish.core.errors import ConfigError
from burnish.core.types import Message
from tests.chat.families import FAMILIES, family_tokenizer, with_template

THOUGHT = "<think>\nwhy\n</think>\n\nyes"


def say(role, content):
    return Message(role=role, content=content)


HELLO, AGAIN = say("user", "hello"), say("user", "again")


def begun(chat, reply="yes"):
    return (*chat.prompt_ids([HELLO]), *chat.reply_ids(reply))


@pytest.mark.parametrize("name", FAMILIES)
def test_a_second_turn_is_appended_as_the_template_renders_it(name):
    chat = Chat(family_tokenizer(name))
    so_far = begun(chat)
    longer = chat.continue_ids(so_far, [AGAIN])
    assert longer[: len(so_far)] == so_far
    assert chat.decode(longer) == chat.text([HELLO, say("assistant", "yes"), AGAIN])


@pytest.mark.parametrize("name", ["chatml", "llama3", "gemma", "mistral"])
def test_appending_and_rendering_again_give_the_same_ids(name):
    chat = Chat(family_tokenizer(name))
    again = chat.prompt_ids([HELLO, say("assistant", "yes"), AGAIN])
    assert chat.continue_ids(begun(chat), [AGAIN]) == again


def test_thinking_that_the_template_strips_stays():
    chat = Chat(family_tokenizer("qwen3"))
    so_far = begun(chat, THOUGHT)
    assert "why" not in chat.text([HELLO, say("assistant", THOUGHT), AGAIN])
    longer = chat.continue_ids(so_far, [AGAIN])
    assert longer[: len(so_far)] == so_far
    assert chat.decode(longer).endswith(
        "</think>\n\nyes<|im_end|>\n<|im_start|>user\nagain<|im_end|>\n<|im_start|>assistant\n"
    )


def test_a_system_message_that_the_template_moves_stays_where_it_was():
    chat = Chat(family_tokenizer("mistral"))
    so_far = (*chat.prompt_ids([say("system", "Be brief."), HELLO]), *chat.reply_ids("yes"))
    assert chat.decode(chat.continue_ids(so_far, [AGAIN])) == (
        "<s>[INST]Be brief.\n\nhello[/INST]yes</s>[INST]again[/INST]"
    )


def test_results_of_several_tools_are_one_turn_where_the_template_makes_them_one():
    chat = Chat(family_tokenizer("qwen3"))
    so_far = begun(chat, "<tool_call>\n{}\n</tool_call>")
    text = chat.decode(chat.continue_ids(so_far, [say("tool", "1"), say("tool", "2")])[len(so_far) :])
    assert text == (
        "\n<|im_start|>user\n<tool_response>\n1\n</tool_response>\n<tool_response>\n2\n</tool_response><|im_end|>\n"
        "<|im_start|>assistant\n"
    )


def test_a_reply_that_was_cut_short_gets_its_end():
    chat = Chat(family_tokenizer("chatml"))
    whole = begun(chat)
    assert chat.continue_ids(whole[:-1], [AGAIN]) == chat.continue_ids(whole, [AGAIN])


def test_a_reply_that_ended_with_another_stop_token_keeps_it():
    chat = Chat(family_tokenizer("llama3"))
    [eos] = chat.stop_ids - {chat.reply_ids("yes")[-1]}
    so_far = (*begun(chat)[:-1], eos)
    longer = chat.continue_ids(so_far, [AGAIN])
    assert longer == so_far + chat.continue_ids(begun(chat), [AGAIN])[len(so_far) :]


@pytest.mark.parametrize("roles", [[], ["assistant", "user"], ["user", "assistant"]])
def test_only_others_go_on_after_the_model(roles):
    chat = Chat(family_tokenizer("chatml"))
    with pytest.raises(ConfigError, match="after the model's turn"):
        chat.continue_ids(begun(chat), [say(role, "x") for role in roles])


@pytest.mark.parametrize(
    ("name", "message"), [("mistral", "needs the id of its call"), ("gemma", "role tool is not known")]
)
def test_a_template_that_refuses_tool_results_says_why(name, message):
    chat = Chat(family_tokenizer(name))
    with pytest.raises(ConfigError, match=message):
        chat.continue_ids(begun(chat), [say("tool", "1")])


def test_a_template_that_drops_replies_from_history_is_refused():
    chat = Chat(
        with_template(
            "{% for m in messages %}{% if m['role'] == 'user' or loop.last %}<|im_start|>{{ m['content'] }}<|im_end|>"
            "{% endif %}{% endfor %}{% if add_generation_prompt %}<|im_start|>{% endif %}"
        )
    )
    with pytest.raises(ConfigError, match="cannot go on by appending"):
        chat.continue_ids(begun(chat), [AGAIN])


@pytest.mark.parametrize("name", ["llama3", "qwen3", "mistral"])
def test_tools_are_shown_where_the_template_shows_them(name):
    chat = Chat(family_tokenizer(name))
    assert '"name": "look_up"' in chat.decode(chat.prompt_ids([HELLO], [probes.TOOL]))


@pytest.mark.parametrize("name", ["chatml", "gemma"])
def test_tools_that_the_template_would_leave_out_are_refused(name):
    with pytest.raises(ConfigError, match="shows no tools"):
        Chat(family_tokenizer(name)).prompt_ids([HELLO], [probes.TOOL])


def test_tool_results_that_the_template_would_leave_out_are_refused():
    template = (
        "{% for m in messages if m['role'] != 'tool' %}<|im_start|>{{ m['content'] }}<|im_end|>{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>{% endif %}"
    )
    with pytest.raises(ConfigError, match="no messages of role tool"):
        Chat(with_template(template)).prompt_ids([HELLO, say("assistant", "x"), say("tool", "1")])


def test_a_turn_ends_behind_the_reply_and_not_at_the_templates_thinking():
    tokenizer = family_tokenizer("qwen3")
    chat = Chat(tokenizer)
    assert chat.decode(chat.reply_ids("yes")) == "yes"
    assert chat.stop_ids == {tokenizer.convert_tokens_to_ids("<|im_end|>")}


def test_a_demonstration_learns_the_thinking_that_the_template_puts_before_it():
    chat = Chat(family_tokenizer("qwen3"))
    shown = chat.demonstration([HELLO], "yes")
    learned = [token_id for token_id, was in zip(shown.token_ids, shown.was_sampled, strict=True) if was]
    assert chat.decode(learned) == "<think>\n\n</think>\n\nyes"
    whole = chat.text([HELLO, say("assistant", "yes")], generation_prompt=False)
    assert chat.decode(shown.token_ids) + "<|im_end|>\n" == whole


def test_a_demonstration_that_thinks_gets_no_second_thinking_block():
    tokenizer = family_tokenizer("qwen3")
    shown = Chat(tokenizer).demonstration([HELLO], THOUGHT)
    assert shown.token_ids.count(tokenizer.convert_tokens_to_ids("<think>")) == 1
    assert shown.token_ids[-len(Chat(tokenizer).reply_ids(THOUGHT)) :] == Chat(tokenizer).reply_ids(THOUGHT)
