import pytest
from hypothesis import given
from hypothesis import strategies as st

from coding_agent.storage.tree import ROOT, SessionTree
from tests.coding_agent.storage.support import chain, entry


def grown(*entries):
    tree = SessionTree()
    for at, data in enumerate(entries):
        tree.add(data, at, 1)
    tree.finish()
    return tree


def ids(tree, path):
    return [tree.ids[at] for at in path]


@pytest.mark.requirement("SESS-1")
def test_the_path_from_the_root_to_the_leaf_is_the_branch():
    """
    Entries form a tree by their parents; the leaf is the last one.
    """
    tree = grown(*chain("a", "b"), entry("x", "e1"))

    assert tree.leaf_id == "x"
    assert ids(tree, tree.path()) == ["e1", "x"]
    assert ids(tree, tree.path(tree.position("e2"))) == ["e1", "e2"]
    assert tree.children()[tree.position("e1")] == [1, 2]


@pytest.mark.requirement("SESS-5")
def test_a_leaf_entry_moves_the_leaf_to_its_target():
    """
    The last word of the file on where to go on is the leaf entry.
    """
    tree = grown(*chain("a", "b"), {"type": "leaf", "id": "l", "parentId": "e2", "targetId": "e1"})
    assert tree.leaf_id == "e1"

    nowhere = grown(*chain("a"), {"type": "leaf", "id": "l", "parentId": "e1", "targetId": None})
    assert nowhere.leaf == ROOT
    assert nowhere.path() == []


def test_the_marker_behind_a_leaf_entry_does_not_move_the_leaf_again():
    """
    Programs that take the last line for the leaf find a session_info hung on the target; we find the target itself.
    """
    leaf = {"type": "leaf", "id": "l", "parentId": "e2", "targetId": "e1"}
    marker = {"type": "session_info", "id": "m", "parentId": "e1", "timestamp": "t", "name": "kept"}
    tree = grown(*chain("a", "b"), leaf, marker)

    assert tree.leaf_id == "e1"
    assert tree.name == "kept"
    assert grown(*chain("a", "b"), marker).leaf_id == "m"


def test_a_leaf_that_points_nowhere_leaves_the_leaf_where_it_was_and_is_reported():
    """
    A damaged leaf entry does not lose the branch.
    """
    tree = grown(*chain("a", "b"), {"type": "leaf", "id": "l", "parentId": "e2", "targetId": "gone"})

    assert tree.leaf_id == "e2"
    assert tree.problems.dangling_leaf == "gone"


@pytest.mark.requirement("SESS-8")
def test_the_latest_label_and_the_latest_name_win_over_the_whole_file():
    """
    Labels and the name belong to the session, not to a branch; blank ones take them away.
    """
    tree = grown(
        *chain("a", "b"),
        {"type": "label", "id": "l1", "parentId": "e2", "targetId": "e1", "label": " one "},
        {"type": "label", "id": "l2", "parentId": "e1", "targetId": "e2", "label": "two"},
        {"type": "label", "id": "l3", "parentId": "e1", "targetId": "e2", "label": "  "},
        {"type": "session_info", "id": "n", "parentId": "e1", "name": "two\nlines "},
    )

    assert tree.labels == {"e1": "one"}
    assert tree.name == "two lines"


def test_a_missing_parent_makes_a_root_and_is_reported():
    """
    An entry whose parent nobody ever wrote begins a tree of its own.
    """
    tree = grown(*chain("a"), entry("x", "gone"))

    assert ids(tree, tree.path()) == ["x"]
    assert tree.problems.missing_parents == {"x": None}


def test_a_parent_that_comes_later_in_the_file_is_found():
    """
    The order of a file that was put together by hand does not matter.
    """
    tree = grown(entry("x", "y"), entry("y", None))
    assert ids(tree, tree.path(tree.position("x"))) == ["y", "x"]


@pytest.mark.requirement("BR-048")
def test_a_line_that_cannot_be_read_does_not_cut_the_branch():
    """
    The child of a lost entry hangs where the lost entry hung.
    """
    tree = SessionTree()
    for data in chain("a", "b"):
        tree.add(data, 0, 1)
    tree.note_damage(None)
    tree.add(entry("x", "lost"), 0, 1)
    tree.finish()

    assert ids(tree, tree.path()) == ["e1", "e2", "x"]
    assert tree.problems.missing_parents == {"x": "e2"}


def test_what_an_unreadable_line_says_about_itself_is_believed():
    """
    When the lost entry's own parent can still be read, its child hangs there and not on the line before.
    """
    tree = SessionTree()
    for data in chain("a", "b"):
        tree.add(data, 0, 1)
    tree.note_damage(("lost", "e1"))
    tree.add(entry("x", "lost"), 0, 1)
    tree.finish()

    assert ids(tree, tree.path()) == ["e1", "x"]


def test_a_circle_of_parents_is_cut():
    """
    A walk to the root always ends.
    """
    tree = grown(entry("a", "b"), entry("b", "a"), entry("c", "b"))

    assert ids(tree, tree.path()) == ["a", "b", "c"]
    assert tree.find_cycles() == ["a"]
    assert grown(entry("self", "self")).path() == [0]


@pytest.mark.requirement("BR-057")
def test_an_id_that_is_used_twice_keeps_both_entries():
    """
    Two writers that made the same id: what each wrote is there, and what follows hangs on the later one.
    """
    tree = SessionTree()
    tree.add(entry("e1", None, "mine"), 0, 1)
    assert tree.clash("e1") == 0
    tree.add_clashing(entry("e1", None, "theirs"), 1, 1)
    tree.add(entry("e2", "e1"), 2, 1)
    tree.finish()

    assert tree.ids == ["e1", "e1~2", "e2"]
    assert ids(tree, tree.path()) == ["e1~2", "e2"]
    assert tree.disk_id(1) == "e1"
    assert tree.problems.duplicates == ["e1"]


def test_the_common_ancestor_is_the_deepest_shared_entry():
    """
    Two branches part at one entry; separate roots share none.
    """
    tree = grown(*chain("a", "b", "c"), entry("x", "e2"), entry("r", None))

    assert tree.ids[tree.common_ancestor(2, 3)] == "e2"
    assert tree.common_ancestor(2, 4) == ROOT


@given(st.lists(st.integers(-1, 30), min_size=1, max_size=30), st.integers(-1, 40))
def test_any_parents_at_all_make_a_tree_that_can_be_walked(parents, target):
    """
    Whatever a damaged file says, every path ends, starts at a root of its own and holds no entry twice.
    """
    entries = [entry(f"e{n}", None if parent < 0 else f"e{parent}") for n, parent in enumerate(parents)]
    tree = grown(*entries, {"type": "leaf", "id": "leaf", "parentId": None, "targetId": f"e{target}"})

    tree.find_cycles()
    for position in range(len(tree)):
        path = tree.path(position)
        assert path[-1] == position
        assert len(set(path)) == len(path)
    assert -1 <= tree.leaf < len(tree)
