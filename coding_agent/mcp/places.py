"""Edge. The files that may name MCP servers."""

from collections.abc import Mapping
from pathlib import Path

from coding_agent.folders import folders
from coding_agent.resources.places import MCP_PROJECT_FILES


def user_files(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """The user's own files, weakest first."""
    own = folders(environ)
    home = own.home
    return (
        own.all_config / "Claude" / "claude_desktop_config.json",
        home / "Library" / "Application Support" / "Claude" / "claude_desktop_config.json",
        home / ".cursor" / "mcp.json",
        home / ".claude.json",
        home / ".pi" / "agent" / "mcp.json",
        own.config / "mcp.json",
    )


def project_files(cwd: Path) -> tuple[Path, ...]:
    """The files of a repository that name servers and are there, weakest first."""
    return tuple(path for name in MCP_PROJECT_FILES if (path := cwd / name).is_file())
