"""The tools a session has when nobody says otherwise."""

import json
import re
import subprocess
import sys
from pathlib import Path

import jsonschema

from coding_agent.settings.schema import EXTRA_TOOLS
from coding_agent.tools import Workspace, default_tools, execute_code_tool

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "tools.md"


def test_the_reference_page_lists_the_tools(folder: Path) -> None:
    """All that a session has, those that are given on request, and no other."""
    listed = re.findall(r"^\| `(\w+)` \|", PAGE.read_text(), re.MULTILINE)

    assert sorted(listed) == sorted([*(tool.name for tool in default_tools(str(folder))), *EXTRA_TOOLS])


def test_every_tool_says_what_it_takes(folder: Path) -> None:
    """Its schema is one, its description a sentence, its parameters are described."""
    for tool in [*default_tools(str(folder)), execute_code_tool(str(folder))]:
        jsonschema.Draft202012Validator.check_schema(tool.parameters)
        assert tool.parameters["type"] == "object"
        assert tool.description.strip().endswith(".")
        json.dumps(dict(tool.parameters))
        for name, schema in tool.parameters["properties"].items():
            assert "description" in schema or "enum" in schema or schema["type"] == "array", (tool.name, name)


def test_the_tools_of_a_session_share_one_workspace(folder: Path) -> None:
    """What one of them read, another knows; each set has its own."""
    workspace = Workspace(folder)
    first = default_tools(str(folder), workspace=workspace)
    second = default_tools(str(folder))

    assert [tool.name for tool in first] == [tool.name for tool in second]
    assert len({tool.name for tool in first}) == len(first)


def test_importing_the_tools_loads_nothing_heavy() -> None:
    """What only a call needs is imported with the first such call."""
    code = (
        "import sys, lemon_agent; before = set(sys.modules); import coding_agent.tools; "
        "print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}

    assert loaded.isdisjoint({"httpx", "pathspec", "jsonschema", "bs4", "markdownify", "PIL", "tree_sitter", "difflib"})
