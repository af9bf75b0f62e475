import pytest

from coding_agent.storage.navigation import plan_navigation
from coding_agent.storage.session_manager import SessionManager
from tests.coding_agent.storage.support import answer, user


@pytest.fixture
def manager(tmp_path):
    with SessionManager.create("/p", tmp_path) as made:
        yield made


@pytest.fixture
def ids(manager):
    return [manager.append_message(message) for message in (user("a"), answer("b"), user("c"), answer("d"))]


def test_going_to_an_answer_puts_the_leaf_there_and_names_what_is_left(manager, ids):
    """
    What is left behind is everything after the place both branches share.
    """
    move = plan_navigation(manager.log, ids[1])
    assert (move.new_leaf, move.editor_text, move.abandoned) == (ids[1], None, (ids[2], ids[3]))


def test_going_to_words_of_the_user_takes_them_back_into_the_editor(manager, ids):
    """
    The leaf goes in front of them, so that they can be said differently.
    """
    move = plan_navigation(manager.log, ids[2])
    assert (move.new_leaf, move.editor_text) == (ids[1], "c")
    first = plan_navigation(manager.log, ids[0])
    assert (first.new_leaf, first.editor_text) == (None, "a")

    told = manager.append_custom_message("x", "from an extension")
    manager.append_message(answer("e"))
    assert plan_navigation(manager.log, told).editor_text == "from an extension"


def test_going_to_the_leaf_is_no_move(manager, ids):
    """
    Nothing is left, nothing is written.
    """
    assert plan_navigation(manager.log, ids[3]) is None


def test_going_to_another_branch_leaves_only_what_is_not_shared(manager, ids):
    """
    From one branch to the end of another.
    """
    manager.set_leaf(ids[1])
    other = manager.append_message(user("other"))
    move = plan_navigation(manager.log, ids[3])

    assert move.new_leaf == ids[3]
    assert move.abandoned == (other,)


def test_an_entry_that_is_not_there_is_a_key_error(manager, ids):
    """
    The pure rule says so in its own way.
    """
    with pytest.raises(KeyError):
        plan_navigation(manager.log, "gone")
