from coding_agent.session.file_operations import FileOperations, from_details, track
from coding_agent.tool_kinds import CHANGES_FILES
from lemon_ai import AssistantMessage, ToolCall
from tests.coding_agent.storage.support import user


def calls(*pairs):
    return AssistantMessage(
        [ToolCall(f"c{n}", name, {"path": path}) for n, (name, path) in enumerate(pairs)], timestamp=1
    )


def test_reads_and_changes_are_told_apart():
    """
    A file that was read and then changed is a changed one; lists are sorted and say each file once.
    """
    found = track(
        [user("x"), calls(("read", "b"), ("read", "a"), ("edit", "a"), ("write", "c"), ("patch", "d"), ("read", "b"))]
    )
    assert found == FileOperations(("b",), ("a", "c", "d"))


def test_whatever_is_known_to_change_files_is_noted():
    """
    Under each name that permissions and checkpoints go by.
    """
    assert track([calls(*((name, name) for name in CHANGES_FILES))]).modified == tuple(sorted(CHANGES_FILES))


def test_every_file_that_a_patch_names_is_a_changed_one():
    """
    Its call has no path of its own; a patch that cannot be read changed nothing.
    """
    patch = "*** Begin Patch\n*** Delete File: a\n*** Update File: b\n*** Move to: c\n@@\n-x\n+y\n*** End Patch"
    read = ToolCall("r", "read", {"path": "a"})
    good, bad = ToolCall("g", "patch", {"patch_text": patch}), ToolCall("b", "patch", {"patch_text": "*** Begin"})
    assert track([AssistantMessage([read, good, bad])]) == FileOperations((), ("a", "b", "c"))


def test_earlier_lists_are_carried_forward():
    """
    A file read long ago and changed now moves over.
    """
    earlier = from_details({"readFiles": ["x", "y"], "modifiedFiles": ["z"]})
    assert track([calls(("edit", "x"))], earlier) == FileOperations(("y",), ("x", "z"))


def test_details_of_older_files_and_of_strangers_are_read_as_far_as_they_go():
    """
    Underscored names, missing lists, wrong kinds.
    """
    assert from_details({"read_files": ["a"], "modified_files": ["b"]}) == FileOperations(("a",), ("b",))
    for strange in (None, [], "x", {"readFiles": 7, "modifiedFiles": [1, None]}):
        assert from_details(strange) == FileOperations()


def test_calls_without_a_path_and_other_tools_are_nothing():
    """
    Arguments may be anything.
    """
    odd = AssistantMessage(
        [ToolCall("a", "read", {}), ToolCall("b", "read", {"path": 7}), ToolCall("c", "bash", {"path": "x"})]
    )
    assert track([odd]) == FileOperations()


def test_the_lists_are_written_in_tags_and_in_details():
    """
    An empty list is left out of the text and kept in the details.
    """
    files = FileOperations((), ("a", "b"))
    assert files.blocks() == "<modified-files>\na\nb\n</modified-files>"
    assert files.to_json() == {"readFiles": [], "modifiedFiles": ["a", "b"]}
    assert FileOperations().blocks() == ""
