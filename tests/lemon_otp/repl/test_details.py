"""What packages above know of processes, and sums over the tree."""

from collections.abc import Mapping
from itertools import pairwise

import pytest

from lemon_otp import Pid, repl, sleep_s, spawn, whereis
from lemon_otp.repl.details import totals
from tests.lemon_otp.repl.conftest import ask, keeper

pytestmark = pytest.mark.usefixtures("top")


async def test_details_stand_before_what_a_process_says_itself() -> None:
    """Phase, times, tokens and cost are in the node; a provider that raises is left out."""

    def provide() -> Mapping[Pid, repl.Detail]:
        return {keeper(): repl.Detail({"phase": "model"}, elapsed_s=1.5, progress_s=0.5, tokens=10, cost=0.25)}

    def fails() -> Mapping[Pid, repl.Detail]:
        raise RuntimeError("no")

    repl.add_details("good", provide)
    repl.add_details("bad", fails)
    (top,) = [node for node in (await ask("tree"))["tree"] if node["id"] == "top"]
    (node,) = [node for node in top["children"] if node["id"] == "keeper"]
    assert node["facts"] == {"phase": "model"}
    assert (node["elapsed_s"], node["progress_s"], node["tokens"], node["cost"]) == (1.5, 0.5, 10, 0.25)
    assert (top["subtree_tokens"], top["subtree_cost"]) == (10, 0.25)


async def test_sums_count_what_works_elsewhere_and_nothing_twice() -> None:
    """A child session stands beside its parent in the tree, and counts for both the parent and their supervisor."""
    supervisor, parent, child, other = whereis("top"), *(spawn(sleep_s, 100) for _ in range(3))
    assert supervisor is not None
    found = {
        parent: repl.Detail(tokens=1, below=(child,)),
        child: repl.Detail(tokens=10, cost=2.0, below=(parent,)),
        other: repl.Detail(tokens=100),
    }
    sums = totals(found, {supervisor: [parent, child, other]})
    assert sums[supervisor] == (111, 2.0)
    assert sums[parent][0] in (1, 11)
    assert sums[other] == (100, 0.0)


async def test_a_chain_of_children_adds_up() -> None:
    """However deep."""
    pids = [spawn(sleep_s, 100) for _ in range(500)]
    found = {pid: repl.Detail(tokens=1, below=(below,)) for pid, below in pairwise(pids)}
    found[pids[-1]] = repl.Detail(tokens=1)
    assert totals(found, {})[pids[0]] == (500, 0.0)
