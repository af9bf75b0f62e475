"""Every recorded exchange, played over loopback HTTP to the real providers, cut in four ways."""

from pathlib import Path

import pytest

from tests.cassettes.compared import differences
from tests.cassettes.recording import SHARED, find, load, pieces
from tests.cassettes.run import lines
from tests.cassettes.wanted import wanted

SPLITS = ("whole", "1", "random:7", "random:2026")
SHARES = 4


def shares() -> list[list[Path]]:
    """The recordings in groups of about the same weight, so that several workers can play them."""
    files = sorted(find([SHARED]), key=lambda file: -file.stat().st_size)
    return [files[share::SHARES] for share in range(SHARES)]


def test_the_shared_recordings_are_there():
    """The set of recordings the providers are judged by is beside the repository, and is the one its index lists."""
    assert len(find([SHARED])) >= 257


@pytest.mark.requirement("AI-3")
@pytest.mark.parametrize("share", range(SHARES))
@pytest.mark.parametrize("split", SPLITS)
def test_every_recorded_exchange_gives_what_the_official_client_made_of_it(split: str, share: int):
    """
    Text, thinking, tool calls, stop reason, usage and errors are those of the recording's expectations, in our
    convention, whether the body arrives whole, byte by byte or in random pieces.
    """
    wrong = [(line["id"], line.get("wrong"), line["got"]) for line in lines(shares()[share], split) if not line["ok"]]

    assert wrong == []


@pytest.mark.parametrize("split", [None, "whole", "1", "7", "random:1", "random:words"])
def test_pieces_put_together_are_the_body(split: str | None):
    """Cutting loses nothing and adds nothing, and a seed cuts the same way each time."""
    body = bytes(range(256)) * 40

    cut = list(pieces(body, split, "name"))

    assert b"".join(cut) == body
    assert cut == list(pieces(body, split, "name"))


def test_a_wrong_field_is_named():
    """A comparison that cannot fail proves nothing: each field, changed, is found."""
    cassette = load(find([SHARED])[0])
    want = wanted(cassette)
    got = {
        "text": want["text"],
        "thinking": "",
        "tool_calls": [],
        "stop_reason": "stop",
        "response_id": want["response_id"],
        "usage": dict(want["usage"]),
        "error": None,
    }
    assert differences(got, want) == []

    assert differences(got | {"text": "else"}, want) == ["text"]
    assert differences(got | {"stop_reason": "length"}, want) == ["stop_reason"]
    assert differences(got | {"tool_calls": [{"name": "x"}]}, want) == ["tool_calls"]
    assert differences(got | {"usage": got["usage"] | {"input": -1}}, want) == ["usage.input"]
    assert differences(got | {"error": {"category": "client"}}, want) == ["error"]
