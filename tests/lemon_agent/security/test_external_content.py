"""Other people's words: marked, wrapped once, and never able to close their wrapper."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lemon_agent import AgentToolResult
from lemon_agent import external_content as ext
from lemon_agent.testing import ScriptedAgent, results, tool_call
from lemon_ai import ImageContent, TextContent, ToolResultMessage, UserMessage, get_text
from tests.lemon_agent.tools import tool


@pytest.mark.requirement("TRUST-1", "TEL-7")
@pytest.mark.parametrize(
    ("given_trust", "kept"),
    [("untrusted", "untrusted"), ("trusted", "trusted"), (None, "trusted"), ("Untrusted", "trusted"), (7, "trusted")],
)
async def test_only_untrusted_stays_untrusted(tree, heard, given_trust, kept):
    """Every other value becomes trusted, in the message and in telemetry alike."""

    async def execute(call_id, params, signal, on_update):
        return AgentToolResult((TextContent("x"),), trust=given_trust)

    agent = await ScriptedAgent.start([[tool_call("t")], "ok"], tools=[tool("t", execute)])
    [message] = results(await agent.run("hi"))
    assert message.trust == kept
    assert heard.of("tool_result", "emit") == [
        {"tool_name": "t", "tool_call_id": "t", "is_error": False, "trust": kept}
    ]


@pytest.mark.requirement("TRUST-2")
def test_an_untrusted_json_result_is_its_payload_as_text_and_as_details():
    """The model reads the JSON, programs read the payload, and the trust says whose words it is."""
    payload = {"title": "Žluť", "rank": 1}
    result = ext.untrusted_json_result(payload)
    assert result.trust == "untrusted"
    assert result.details is payload
    [block] = result.content
    assert json.loads(block.text) == payload


@pytest.mark.requirement("TRUST-3")
def test_trust_metadata_has_every_field_in_either_key_style():
    """Snake case by default; camel case by either of its names."""
    snake = {
        "untrusted": True,
        "source": "web_search",
        "source_label": "Web Search",
        "wrapping_applied": True,
        "wrapped_fields": ["title", "0"],
    }
    assert ext.trust_metadata("web_search", wrapped_fields=["title", 0]) == snake
    camel = {
        "untrusted": True,
        "source": "web_fetch",
        "sourceLabel": "Web Fetch",
        "wrappingApplied": True,
        "wrappedFields": [],
    }
    assert ext.trust_metadata("web-fetch", "camel_case") == camel
    assert ext.trust_metadata("web_fetch", "camelCase") == camel


@pytest.mark.requirement("TRUST-4")
def test_whether_a_warning_went_along_is_said_only_when_known():
    """A boolean is said under the style's own name; anything else leaves the field out."""
    assert ext.trust_metadata("api", warning_included=False)["warning_included"] is False
    assert ext.trust_metadata("api", "camel_case", warning_included=True)["warningIncluded"] is True
    assert "warning_included" not in ext.trust_metadata("api")
    assert "warning_included" not in ext.trust_metadata("api", warning_included="yes")
    assert ext.web_trust_metadata("web_search", ["snippet"])["warning_included"] is False


@pytest.mark.requirement("TRUST-5")
def test_unknown_sources_and_odd_fields_are_dealt_with():
    """A source nobody knows is "unknown", labelled External; blanks and other types are no field names."""
    assert ext.trust_metadata("carrier pigeon")["source"] == "unknown"
    assert ext.trust_metadata(None)["source_label"] == "External"
    odd = [" title ", "", "  ", None, 3, True, 2.5, ["x"]]
    assert ext.trust_metadata("api", wrapped_fields=odd)["wrapped_fields"] == ["title", "3"]


@pytest.mark.parametrize(
    ("spelled", "label"),
    [
        ("email", "Email"),
        (" Webhook ", "Webhook"),
        ("API", "API"),
        ("web-search", "Web Search"),
        ("web_fetch", "Web Fetch"),
        ("x", "External"),
    ],
)
def test_sources_have_labels(spelled, label):
    """Whatever the case, the spaces and the dash."""
    assert f"Source: {label}\n" in ext.wrap_external_content("hi", source=spelled)


@pytest.mark.requirement("TRUST-6")
@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("browser", {"trustMetadata", "trust_metadata"}),
        ("web_download", {"trustMetadata", "trust_metadata"}),
        ("web_fetch", {"trustMetadata"}),
        ("web_search", {"trust_metadata"}),
    ],
)
def test_payloads_carry_their_trust_under_the_keys_their_readers_know(name, keys):
    """Browser and download under both spellings, fetch under the camel one, search under the snake one."""
    payload = ext.with_trust_metadata(name, {"text": "x"}, wrapped_fields=["text"])
    assert set(payload) - {"text"} == keys
    for key in keys:
        assert payload[key]["untrusted"] is True
        assert ("sourceLabel" in payload[key]) == (key == "trustMetadata")


def test_a_wrapped_text_has_its_parts_in_order():
    """Warning, blank line, start marker, source, sender, subject, rule, content, end marker."""
    wrapped = ext.wrap_external_content("Hello", source="email", sender=" a@b \n c", subject=" ")
    warning, rest = wrapped.split("\n\n", 1)
    assert warning == ext.WARNING
    assert rest.split("\n") == [ext.START, "Source: Email", "From: a@b c", "---", "Hello", ext.END]


def test_only_pages_are_wrapped_with_the_warning():
    """A list of search results says its source, a page the whole warning."""
    assert ext.wrap_web_content("x").startswith(ext.START)
    assert ext.wrap_web_content("x", "web_fetch").startswith(ext.WARNING)
    assert ext.wrap_external_content("x", include_warning=False).startswith(ext.START)


markers = st.sampled_from([ext.START, ext.END, ext.START.lower(), ext.END.title(), "\n---\n", "Source: A", ext.WARNING])
hostile = st.lists(st.one_of(markers, st.text(max_size=8)), max_size=8).map("".join)


@pytest.mark.requirement("TRUST-7")
@given(hostile, hostile)
def test_content_cannot_close_its_wrapper(content, subject):
    """Whatever it holds, there is one start marker and one end marker, and the end marker is the last line."""
    wrapped = ext.wrap_external_content(content, subject=subject)
    folded = wrapped.lower()
    assert folded.count(ext.START.lower()) == 1
    assert folded.count(ext.END.lower()) == 1
    assert wrapped.endswith(f"\n{ext.END}")
    assert ext.is_wrapped(wrapped)


@pytest.mark.requirement("TRUST-8")
@given(hostile)
def test_what_is_wrapped_is_not_wrapped_again(content):
    """`shield` applied any number of times gives what it gave the first time."""
    message = ToolResultMessage("c", "web_fetch", (TextContent(content),), trust="untrusted", timestamp=1)
    once = ext.shield([message])
    assert ext.shield(once) == once
    assert get_text(once[0]).count(ext.START) == 1


@pytest.mark.requirement("TRUST-8")
def test_only_untrusted_results_are_wrapped():
    """Trusted results, pictures and other messages pass as they are."""
    picture = ImageContent("aGk=")
    messages = [
        UserMessage("hi"),
        ToolResultMessage("a", "read", (TextContent("mine"),), timestamp=1),
        ToolResultMessage("b", "browser", (TextContent("theirs"), picture), trust="untrusted", timestamp=1),
    ]
    user, trusted, untrusted = ext.shield(messages)
    assert (user, trusted) == (messages[0], messages[1])
    assert untrusted.content[1] is picture
    assert "theirs" in untrusted.content[0].text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\u200bb", "a\\u{200b}b"),
        ("\U000e0041\U000e0042", "\\u{e0041}\\u{e0042}"),
        ("x\u202ey", "x\\u{202e}y"),
        ("👩\u200d👧", "👩\u200d👧"),
        ("\u200dx", "\\u{200d}x"),
        ("plain", "plain"),
    ],
)
def test_characters_nobody_sees_are_shown(text, shown):
    """Tag letters, zero-width and direction characters become escapes; joiners inside words and emoji stay."""
    assert ext.visible(text) == shown
    assert shown in ext.wrap_external_content(text)
