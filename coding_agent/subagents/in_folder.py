"""Pure. The tools of a subagent that works in a folder below its parent's: the same tools, told where they are.

What they are called with is rewritten before it is checked, judged and carried out, so that rules, permissions and
checkpoints see it from where the parent works, as they see everything else. Only relative paths are: an absolute one
says where it leads.
"""

import re
import shlex
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from attrs import evolve, frozen

from coding_agent.tool_kinds import CHANGES_FILES, LOOKS_AT_FILES
from lemon_agent import AgentTool

LOOKS_HERE: Final = frozenset({"ls", "grep", "find"})
"""Tools that look in the working folder when they are not told where."""
TAKES_PATH: Final = LOOKS_AT_FILES | (CHANGES_FILES - {"patch"}) | {"browser"}
RUNS: Final = frozenset({"bash", "process"})
_FILE_LINE: Final = re.compile(r"^(\*\*\* (?:Add File|Update File|Delete File|Move to): )(.+)$", re.MULTILINE)


@frozen
class InFolder:
    """`AgentTool.prepare_arguments` of such a tool.

    Attributes:
        tool: Its name.
        folder: Where the subagent works, from where the tool was made for.
        before: What else was done to the arguments; first.
    """

    tool: str
    folder: str
    before: Callable[[Any], Any] | None = None

    def __call__(self, params: Any) -> Any:
        """The arguments as the tool understands them; what is no object is left as it is."""
        given = params if self.before is None else self.before(params)
        return {**given, **self._changed(given)} if isinstance(given, dict) else given

    def _changed(self, given: dict[str, Any]) -> dict[str, Any]:
        path, command = given.get("path"), given.get("command")
        if self.tool in LOOKS_HERE and not path:
            return {"path": self.folder}
        if self.tool in TAKES_PATH and isinstance(path, str) and path:
            return {"path": self._below(path)}
        if self.tool == "web_download":
            return {"path": self._below(path if isinstance(path, str) and path else _last_part(given.get("url")))}
        if self.tool == "patch" and isinstance(text := given.get("patch_text"), str):
            return {"patch_text": _FILE_LINE.sub(lambda line: line[1] + self._below(line[2]), text)}
        if self.tool in RUNS and isinstance(command, str) and command:
            return {"command": f"cd {shlex.quote(self.folder)} && {{\n{command}\n}}"}
        if self.tool == "execute_code" and isinstance(script := given.get("script"), str):
            return {"script": f"import os; os.chdir({self.folder!r})\n{script}"}
        return {}

    def _below(self, path: str) -> str:
        return path if path.startswith(("/", "~")) else str(PurePosixPath(self.folder, path))


def in_folder(tool: AgentTool, folder: str) -> AgentTool:
    """The tool for whoever works in `folder`, relative to where it worked before."""
    earlier = tool.prepare_arguments
    if isinstance(earlier, InFolder):  # a subagent of a subagent: one folder further down
        return evolve(tool, prepare_arguments=evolve(earlier, folder=str(PurePosixPath(earlier.folder, folder))))
    return evolve(tool, prepare_arguments=InFolder(tool.name, folder, earlier))


def _last_part(url: Any) -> str:
    return unquote(urlsplit(str(url)).path).rpartition("/")[2] or "download"
