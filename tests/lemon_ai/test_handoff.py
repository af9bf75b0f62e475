"""lemon_ai/handoff.py: a conversation held with one model, made acceptable to another."""

import pytest

from lemon_ai.handoff import IMAGE_OMITTED, NO_RESULT, hand_over
from lemon_ai.messages import (
    AssistantMessage,
    ImageContent,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from lemon_ai.wire_text import safe_id
from tests.lemon_ai.providers.wires import answer, model

OURS = model()
THEIRS = model(api="openai_responses", provider="openai", id="another-model")
BLIND = model(input=("text",))


def result(call_id: str, text: str = "done", **changes: object) -> ToolResultMessage:
    return ToolResultMessage(call_id, "a_tool", (TextContent(text),), timestamp=1, **changes)  # type: ignore[arg-type]


def said(text: str = "go") -> UserMessage:
    return UserMessage(text, timestamp=1)


def call(call_id: str) -> ToolCall:
    return ToolCall(call_id, "a_tool", {"x": 1}, thought_signature="sig")


def test_the_same_models_blocks_are_kept_as_they_were():
    """Provider, api and model are the same: signatures, empty signed thinking and redacted blocks all go back."""
    blocks = (
        ThinkingContent("", "proof"),
        ThinkingContent("aloud"),
        ThinkingContent("", "opaque", redacted=True),
        TextContent("hi", "item"),
        call("c1"),
    )

    (kept, answered) = hand_over([answer(OURS, *blocks), result("c1")], OURS, normalise_id=lambda i, m: "changed")

    assert kept.content == blocks
    assert answered == result("c1")


def test_blank_unsigned_thinking_is_dropped_for_everybody():
    """There is nothing in it, and no service takes it."""
    message = answer(OURS, ThinkingContent("  "), TextContent("hi"))

    assert hand_over([message], OURS)[0].content == (TextContent("hi"),)


def test_another_models_thinking_becomes_text_and_loses_what_only_it_could_read():
    """Signed or not, thinking is plain text for a stranger; redacted and blank thinking is nothing."""
    message = answer(
        THEIRS,
        ThinkingContent("signed", "proof"),
        ThinkingContent("aloud"),
        ThinkingContent("", "opaque", redacted=True),
        ThinkingContent(" ", "proof"),
        TextContent("hi", "item"),
        call("c1"),
    )

    (kept, _) = hand_over([message], OURS)

    assert kept.content[:3] == (TextContent("signed"), TextContent("aloud"), TextContent("hi"))
    assert kept.content[3] == ToolCall("c1", "a_tool", {"x": 1})


@pytest.mark.parametrize("change", [{"provider": "x"}, {"api": "x"}, {"id": "x"}])
def test_one_difference_in_the_stamp_makes_it_another_model(change: dict[str, str]):
    """Provider, api and model id all count."""
    message = answer(model(**change), TextContent("hi", "item"))

    assert hand_over([message], OURS)[0].content == (TextContent("hi"),)


def test_ids_of_calls_and_results_change_together():
    """The result of a renamed call names the new id."""
    history = [answer(THEIRS, call("a.b:c")), result("a.b:c")]

    (asked, answered) = hand_over(history, OURS, normalise_id=lambda i, m: safe_id(i))

    assert asked.content[0].id == "a_b_c"
    assert answered.tool_call_id == "a_b_c"


def test_two_ids_that_would_become_one_stay_two():
    """A normaliser that cuts or replaces may collide; results still find their own call."""
    history = [answer(THEIRS, call("a.b"), call("a:b")), result("a:b", "second"), result("a.b", "first")]

    (asked, second, first) = hand_over(history, OURS, normalise_id=lambda i, m: safe_id(i))

    ids = [block.id for block in asked.content]
    assert len(set(ids)) == 2
    assert (first.tool_call_id, second.tool_call_id) == (ids[0], ids[1])


def test_an_id_used_again_in_a_later_turn_is_another_call():
    """Servers without ids number their calls from zero in each answer."""
    history = [answer(THEIRS, call("0")), result("0", "one"), answer(THEIRS, call("0")), result("0", "two")]

    (one, first, two, second) = hand_over(history, OURS)

    assert one.content[0].id == first.tool_call_id
    assert two.content[0].id == second.tool_call_id
    assert one.content[0].id != two.content[0].id
    assert (first.content[0].text, second.content[0].text) == ("one", "two")


def test_two_calls_of_one_answer_with_one_id_get_their_results_in_order():
    """A duplicate id in one message: the first result answers the first call."""
    history = [answer(OURS, call("x"), call("x")), result("x", "one"), result("x", "two")]

    (asked, one, two) = hand_over(history, OURS)

    assert [block.id for block in asked.content] == [one.tool_call_id, two.tool_call_id]
    assert (one.content[0].text, two.content[0].text) == ("one", "two")


@pytest.mark.parametrize("stop", ["error", "aborted"])
def test_an_answer_that_failed_is_left_out_with_its_calls_and_results(stop: str):
    """A half answer is never shown to a model again, and its calls are not pending."""
    broken = answer(OURS, TextContent("half"), call("c1"), stop_reason=stop)

    assert hand_over([said(), broken, result("c1"), said("again")], OURS) == (said(), said("again"))


def test_an_answer_cut_by_its_length_is_kept():
    """It was said, and the model goes on from it."""
    cut = answer(OURS, TextContent("once upon"), stop_reason="length")

    assert hand_over([cut], OURS) == (cut,)


@pytest.mark.requirement("BR-076", "BR-084")
@pytest.mark.parametrize("after", [[said("next")], [answer(OURS, TextContent("next"))], []])
def test_a_call_without_a_result_is_answered(after: list[UserMessage | AssistantMessage]):
    """At the next user message, the next answer, or the end: strict services refuse an open call."""
    history = [answer(OURS, call("a"), call("b")), result("b"), *after]

    (_, given, made, *rest) = hand_over(history, OURS)

    assert given == result("b")
    assert (made.tool_call_id, made.is_error) == ("a", True)
    assert made.content == (TextContent(NO_RESULT),)
    assert rest == after


def test_a_result_behind_a_user_message_still_reaches_its_call():
    """Somebody spoke while tools ran; the result is not replaced by one that says there was none."""
    history = [answer(OURS, call("a")), said("hurry"), result("a", "late")]

    (_, late, hurry) = hand_over(history, OURS)

    assert late.content[0].text == "late"
    assert hurry == said("hurry")


def test_a_result_without_a_call_and_a_second_result_are_dropped():
    """Strict services refuse both."""
    history = [result("nobody"), said(), answer(OURS, call("a")), result("a"), result("a", "again"), result("b")]

    assert hand_over(history, OURS) == (said(), answer(OURS, call("a")), result("a"))


def test_values_of_unknown_roles_are_left_out():
    """Roles of packages above are turned into ours before; what was not is nothing a model sees."""
    assert hand_over([said(), object()], OURS) == (said(),)


def test_a_model_that_cannot_see_is_shown_no_images():
    """A message of images alone is dropped, or says that there was one; a result always says it."""
    image = ImageContent("aGk=")
    history = [
        UserMessage((image,), timestamp=1),
        UserMessage((TextContent("look"), image), timestamp=1),
        answer(OURS, call("a")),
        ToolResultMessage("a", "a_tool", (image,), timestamp=1),
    ]

    (look, _, shown) = hand_over(history, BLIND)

    assert look.content == (TextContent("look"),)
    assert shown.content == (TextContent(IMAGE_OMITTED),)
    assert hand_over(history[:1], BLIND, omitted_image_text="no")[0].content == (TextContent("no"),)
    assert hand_over(history, OURS)[0].content == (image,)


def test_an_answer_left_with_nothing_is_dropped():
    """Such as one that held only another model's redacted thinking."""
    assert hand_over([answer(THEIRS, ThinkingContent("", "x", redacted=True)), said()], OURS) == (said(),)
