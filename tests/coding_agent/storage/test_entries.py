import json

import pytest

from coding_agent.storage.entries import (
    FIELDS,
    Compaction,
    Label,
    Leaf,
    MessageEntry,
    ModelChange,
    UnknownEntry,
    entry_from_json,
    entry_to_json,
)
from coding_agent.storage.header import header_from_json
from tests.coding_agent.storage.support import PI

LINES = [json.loads(raw) for raw in (PI / "v3-all-entry-types.jsonl").read_bytes().split(b"\n") if raw]


@pytest.mark.requirement("SESS-4")
@pytest.mark.parametrize("data", LINES[1:], ids=lambda data: f"{data['type']}-{data['id']}")
def test_every_entry_of_the_sample_reads_and_writes_the_same(data):
    """
    Nothing of an entry of any type is lost on the way through its class.
    """
    assert entry_to_json(entry_from_json(data)) == data


def test_the_sample_has_every_type_there_is():
    """
    The round trip above covers all eleven types.
    """
    assert {cls.type for cls in FIELDS} == {data["type"] for data in LINES[1:]} - {"x_future_entry"}
    assert len(FIELDS) == 11


def test_members_we_do_not_know_survive():
    """
    A newer program's member is kept, at the end.
    """
    data = {
        "type": "model_change",
        "id": "a",
        "parentId": None,
        "timestamp": "t",
        "provider": "p",
        "modelId": "m",
        "x": [1],
    }
    entry = entry_from_json(data)

    assert isinstance(entry, ModelChange)
    assert entry.extra == {"x": [1]}
    assert list(entry_to_json(entry)) == list(data)


def test_a_type_we_do_not_know_is_kept_whole():
    """
    An entry of the future is carried along untouched.
    """
    data = {"type": "future", "id": "a", "parentId": "b", "payload": {"deep": [1, 2.0]}}
    entry = entry_from_json(data)

    assert isinstance(entry, UnknownEntry)
    assert (entry.id, entry.parent_id) == ("a", "b")
    assert entry_to_json(entry) == data


def test_an_entry_that_misses_what_its_type_needs_is_kept_whole_too():
    """
    Half an entry is no reason to lose the other half.
    """
    data = {"type": "label", "id": "a", "parentId": None}
    assert isinstance(entry_from_json(data), UnknownEntry)
    assert entry_to_json(entry_from_json(data)) == data


@pytest.mark.requirement("SESS-11")
def test_the_spellings_of_older_files_are_read():
    """
    Older Lemon files name their types in camel case.
    """
    entry = entry_from_json({"type": "modelChange", "id": "a", "parentId": None, "provider": "p", "modelId": "m"})
    assert entry == ModelChange(id="a", provider="p", model_id="m")


def test_absent_members_stay_absent_and_a_leaf_may_point_to_nothing():
    """
    Only a leaf writes a null: it means before the first entry.
    """
    assert "label" not in entry_to_json(Label(id="a", target_id="b"))
    assert entry_to_json(Leaf(id="a", target_id=None))["targetId"] is None
    assert entry_to_json(Compaction(id="a", summary="s", retained_tail=()))["retainedTail"] == []
    assert entry_from_json(entry_to_json(MessageEntry(id="a", message={"role": "user"}))).message == {"role": "user"}


def test_a_header_with_members_of_the_wrong_kind_still_reads():
    """
    Very old headers lack a working folder and a version.
    """
    header = header_from_json({"type": "session", "id": "s", "cwd": 7})
    assert (header.id, header.cwd, header.version, header.parent_session) == ("s", "", 1, None)
