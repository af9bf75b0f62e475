"""Pure. What a server's tool or prompt is called among all of them: `mcp__server__tool`; rules for a whole server."""

import hashlib
import re
from collections.abc import Iterable
from typing import Final

PREFIX: Final = "mcp__"
LENGTH_MAX: Final = 64
SUFFIX_LENGTH: Final = 8
_UNUSUAL: Final = re.compile(r"[^A-Za-z0-9_-]")


def plain_name(server: str, tool: str) -> str:
    """The name by the rule, however long."""
    return f"{PREFIX}{plain_part(server)}__{plain_part(tool)}"


def plain_part(name: str) -> str:
    """The name of a server, or of something of its, as it stands in a name of ours."""
    return _UNUSUAL.sub("_", name)


def suffixed_name(server: str, tool: str) -> str:
    """The name with a few digits that stand for exactly this server and tool, cut to fit."""
    digits = hashlib.sha256(f"{server}\0{tool}".encode(errors="surrogatepass")).hexdigest()[:SUFFIX_LENGTH]
    return f"{plain_name(server, tool)[: LENGTH_MAX - SUFFIX_LENGTH - 1]}_{digits}"


def tool_names(tools: Iterable[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """A name for each `(server, tool)`, none twice; who comes first keeps the plain name."""
    found: dict[tuple[str, str], str] = {}
    taken: set[str] = set()
    for server, tool in tools:
        if (server, tool) in found:
            continue
        name = plain_name(server, tool)
        if len(name) > LENGTH_MAX or name in taken:
            name = suffixed_name(server, tool)
        if name not in taken:
            found[server, tool] = name
            taken.add(name)
    return found


def rule_for_server(server: str, others: Iterable[str]) -> str | None:
    """The permission rule for all tools of a server; None when it would be about tools of one of the others too."""
    beginning = plain_name(server, "")
    if len(beginning) >= LENGTH_MAX or any(plain_name(each, "").startswith(beginning) for each in others):
        return None
    return f"{beginning}*"
