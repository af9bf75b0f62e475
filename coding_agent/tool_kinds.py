"""Pure. Which tools look at files, change them or fetch, by name: for permissions, checkpoints and subagents alike.

Names of other programs' tools are among them, for extensions and MCP servers bring tools under those.
"""

from __future__ import annotations

from typing import Final

LOOKS_AT_FILES: Final = frozenset({"read", "grep", "find", "ls", "glob"})
CHANGES_FILES: Final = frozenset({"write", "edit", "patch", "hashline_edit", "multiedit"})
FETCHES: Final = frozenset({"web_fetch", "web_download", "web_search"})
