"""What stands before the tools of a session, and what of it is each session's own."""

import pytest
from attrs import evolve

from coding_agent.checkpoints.guarded_tools import Checkpoints
from coding_agent.permissions.gate import PermissionGate
from coding_agent.safety import Safety, guarded
from coding_agent.settings import read_settings
from lemon_otp import Runtime, spawn


@pytest.mark.parametrize("checkpoints", [True, False])
async def test_a_subagents_tools_are_its_own_where_they_hold_something(
    runtime: Runtime, tmp_path, checkpoints: bool
) -> None:
    """
    Each session gets a browser of its own, made from another session's tools too, and its checkpoints name it; whatever
    holds nothing is shared. Making tools one's own twice changes nothing but whose they are.
    """
    settings = read_settings({"HOME": str(tmp_path)}, cwd=str(tmp_path))
    made = guarded(settings, evolve(Safety("full"), checkpoints=checkpoints), PermissionGate(None))
    parent, child = spawn(lambda: None), spawn(lambda: None)

    def bound(tools, session):
        for bind in made.binders:
            tools = bind(tools, session)
        return tools

    parents = bound(made.tools, parent)
    childs = bound(parents, child)
    names = [tool.name for tool in made.tools]
    assert [tool.name for tool in parents] == [tool.name for tool in childs] == names
    by_name = {name: (one, other) for name, one, other in zip(names, parents, childs, strict=True)}
    assert by_name["browser"][0].execute is not by_name["browser"][1].execute
    assert by_name["grep"][0] is by_name["grep"][1]
    watches = [getattr(tool.execute, "__self__", None) for tool in by_name["write"]]
    if checkpoints:
        assert [watch.session for watch in watches] == [parent, child]
        assert watches[1].tool.name == "write"
        assert isinstance(watches[0].checkpoints, Checkpoints)
    else:
        assert watches == [None, None]
