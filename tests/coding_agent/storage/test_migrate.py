import json

import pytest

from coding_agent.storage.migrate import first_kept_id, upgrade, upgrade_header_text, upgrade_text, version_of


@pytest.mark.parametrize(
    ("header", "version"),
    [({}, 1), ({"version": 2}, 2), ({"version": "3"}, 3), ({"version": 4.0}, 4), ({"version": None}, 1)],
)
def test_a_header_without_a_version_is_of_format_1(header, version):
    """
    Format 1 had no version member.
    """
    assert version_of(header) == version


@pytest.mark.requirement("SESS-11")
def test_format_1_gets_ids_and_a_pointer_for_its_index():
    """
    The number of the first kept line becomes the id of the entry there.
    """
    data = {"type": "compaction", "timestamp": "t", "summary": "s", "firstKeptEntryIndex": 2, "tokensBefore": 9}
    kept = first_kept_id(data, ["", "e1", "e2"])
    upgraded = upgrade(data, 1, entry_id="e3", parent_id="e2", first_kept=kept)

    assert upgraded == {
        "type": "compaction",
        "timestamp": "t",
        "summary": "s",
        "tokensBefore": 9,
        "id": "e3",
        "parentId": "e2",
        "firstKeptEntryId": "e2",
    }
    assert data["firstKeptEntryIndex"] == 2


@pytest.mark.parametrize("index", [0, 3, -1, None, "1"])
def test_an_index_that_points_to_nothing_is_left_unset(index):
    """
    Number 0 is the header; a number out of range keeps nothing.
    """
    assert first_kept_id({"firstKeptEntryIndex": index}, ["", "e1", "e2"]) is None


@pytest.mark.requirement("SESS-11")
def test_format_2_calls_custom_messages_by_their_new_role():
    """
    hookMessage became custom; in format 3 the word means nothing any more.
    """
    data = {"type": "message", "id": "a", "parentId": None, "message": {"role": "hookMessage", "content": "x"}}

    assert upgrade(data, 2)["message"]["role"] == "custom"
    assert upgrade(data, 3)["message"]["role"] == "hookMessage"
    assert data["message"]["role"] == "hookMessage"


def test_the_text_of_an_entry_keeps_what_does_not_change():
    """
    Numbers, spaces and escapes of members that stay the same are the same bytes.
    """
    text = '{"type":"message", "cost":0.0000090, "message":{"role":"hookMessage","n":1.50}, "x":"\\u00e9"}'
    data = json.loads(text)
    upgraded = upgrade(data, 1, entry_id="a", parent_id=None)

    assert upgrade_text(text, data, upgraded) == (
        '{"type":"message","cost":0.0000090,"message":{"role":"custom","n":1.50},"x":"\\u00e9","id":"a","parentId":null}'
    )
    assert upgrade_text(text, data, data) == text


def test_the_header_gets_its_version_and_keeps_the_rest():
    """
    What format 1 said about model and level stays in the header.
    """
    assert upgrade_header_text('{"type":"session","id":"s", "modelId":"m"}') == (
        '{"type":"session","id":"s","modelId":"m","version":3}'
    )
