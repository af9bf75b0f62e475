"""The tree as rows, and what has changed between two looks."""

from hypothesis import given
from hypothesis import strategies as st

from coding_agent.observer.snapshot import FIELDS, ID_CHARS_MAX, Snapshot, changes, look
from lemon_otp import TreeNode, introspect, receive, send, spawn
from lemon_otp.testing import settle


async def stand() -> None:
    while True:
        await receive()


def node(name: str, *children: TreeNode, state: str = "stopped") -> TreeNode:
    return TreeNode(name, None, None, "worker", state, {}, children)


async def test_every_node_is_a_row_with_those_below_it_behind_it(runtime):
    """Depth and order show the tree; the totals add it up."""
    pid = spawn(stand, label="standing")
    snapshot, totals = look(introspect.tree(), Snapshot(), 1.0)
    assert snapshot.rows[pid.id][FIELDS.index("id")] == "standing"
    assert len(snapshot.order) == len(snapshot.rows) == totals.processes


async def test_rates_are_what_was_taken_between_two_looks(runtime):
    """Ten messages in two seconds are five a second; the first look knows no rate."""
    pid = spawn(stand, label="standing")
    await settle()
    first, _ = look(introspect.tree(), Snapshot(), 1.0)
    for _ in range(10):
        send(pid, "poke")
    await settle()
    second, totals = look(introspect.tree(), first, 3.0)
    rate = FIELDS.index("rate")
    assert (first.rows[pid.id][rate], second.rows[pid.id][rate]) == (0, 5.0)
    assert totals.messages >= 10


async def test_only_what_changed_is_told(runtime):
    """Nothing, a row, or the order when the tree has another shape."""
    first, _ = look(introspect.tree(), Snapshot(), 1.0)
    again, _ = look(introspect.tree(), first, 2.0)
    assert changes(first, again) is None
    spawn(stand, label="new")
    third, _ = look(introspect.tree(), again, 3.0)
    news = changes(again, third)
    assert news["order"] == third.order
    assert [row[1] for _, row in news["rows"]] == ["new"]


def test_nodes_without_a_process_have_keys_of_their_own():
    """Siblings of one name, stopped children and stand-ins are told apart; very long ids are cut."""
    nodes = [node("a", node("same"), node("same")), node("a"), node("x" * 1000)]
    snapshot, _ = look(nodes, Snapshot(), 1.0)
    assert len(snapshot.order) == len(set(snapshot.order)) == 5
    assert len(snapshot.rows[snapshot.order[-1]][1]) == ID_CHARS_MAX


@given(st.recursive(st.text(max_size=3), lambda inner: st.lists(inner, max_size=3), max_leaves=20))
def test_what_is_told_makes_the_old_look_the_new_one(shape):
    """Applying the changes to the rows of before gives the rows of now, whatever the tree is like."""

    def built(value) -> TreeNode:
        return node(value) if isinstance(value, str) else node("·", *map(built, value))

    before, _ = look([built("a")], Snapshot(), 1.0)
    now, _ = look([built(shape)], before, 2.0)
    news = changes(before, now) or {}
    rows = {**before.rows, **dict(news.get("rows", []))}
    order = news.get("order", before.order)
    assert order == now.order
    assert {key: rows[key] for key in order} == now.rows
