"""Edge. `python -m coding_agent models list`: what could answer here, whose key there is, what runs on this machine."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final

from attrs import frozen

from coding_agent.command_parser import CommandParser, or_first
from coding_agent.credentials import Credentials
from coding_agent.models.local_probes import ServedModel
from coding_agent.models.local_servers import LocalServer
from coding_agent.models.user_models import user_models
from lemon_ai import KEYLESS, Model, redact

LEGEND: Final = "context and answer in tokens; can: t thinks, i sees pictures; dollars for a million tokens in and out"


@frozen
class Row:
    """A model and why it can be used.

    Attributes:
        model: With the context it really gets.
        source: Where its credential comes from, or the address of its server; None when it cannot be used here.
        served: What its server says of it, for one on this machine.
    """

    model: Model
    source: str | None
    served: ServedModel | None = None

    @property
    def name(self) -> str:
        """What `--model` takes."""
        return f"{self.model.provider}/{self.model.id}"


def main(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """Print the models; 0 when there is one, 1 when nothing fits."""
    arguments = _parser().parse_args(or_first(argv, "list"))
    known = user_models(environ)
    servers = () if arguments.no_local else known.servers.find()
    rows = [row for row in all_rows(known.catalog.models(), servers, known.credentials) if fits(row, arguments.pattern)]
    usable = [row for row in rows if row.source is not None]
    shown = rows if arguments.all else usable
    if arguments.json:
        print(
            json.dumps(
                {"models": [to_json(row) for row in shown], "servers": [server_json(server) for server in servers]},
                ensure_ascii=False,
                indent=2,
            )
        )
        return 0 if shown else 1
    for line in table(shown):
        print(line)
    for server in servers:
        if not server.models:
            print(f"{server.kind} at {redact(server.base_url)}: {server.state}, no model", file=sys.stderr)
    if shown:
        print(LEGEND, file=sys.stderr)
    if len(rows) > len(shown):
        print(f"{len(rows) - len(shown)} more have no key here; `models list --all` shows them", file=sys.stderr)
    elif not shown:
        print("no model fits", file=sys.stderr)
    return 0 if shown else 1


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(prog="python -m coding_agent models", description="The models that can be used here.")
    commands = parser.add_subparsers(metavar="list", required=True)
    one = commands.add_parser("list", help="one line a model: context, longest answer, price, where the key is from")
    one.add_argument(
        "pattern", nargs="?", metavar="PATTERN", help="words of a name, or a pattern such as openai/gpt-5*"
    )
    one.add_argument("--all", "-a", action="store_true", help="also those there is no key for")
    one.add_argument("--json", action="store_true", help="print JSON")
    one.add_argument("--no-local", action="store_true", help="do not look for servers on this machine")
    return parser


def all_rows(listed: Sequence[Model], servers: Sequence[LocalServer], credentials: Credentials) -> list[Row]:
    """Models of servers on this machine first, then the catalogue's; each name once."""
    rows = [
        Row(model, redact(server.base_url), served)
        for server in servers
        for served in server.models
        for model in server.as_models()
        if model.id == served.id
    ]
    taken = {row.name for row in rows}
    sources: dict[str, str | None] = {}
    for model in listed:
        if f"{model.provider}/{model.id}" in taken:
            continue
        if model.provider not in sources:
            builtin = "built in" if model.provider == "scripted" else None
            sources[model.provider] = builtin if model.provider in KEYLESS else credentials.source(model.provider)
        rows.append(Row(model, sources[model.provider]))
    return rows


def fits(row: Row, pattern: str | None) -> bool:
    """Is this one asked for? Words must all occur; `*` and `?` stand for anything."""
    if not pattern:
        return True
    name = f"{row.name} {row.model.name}".lower()
    if any(sign in pattern for sign in "*?["):
        return fnmatchcase(row.name.lower(), pattern.lower()) or fnmatchcase(row.model.id.lower(), pattern.lower())
    return all(word in name for word in pattern.lower().split())


def to_json(row: Row) -> dict[str, Any]:
    """One model for programs."""
    model, served = row.model, row.served
    found: dict[str, Any] = {
        "provider": model.provider,
        "id": model.id,
        "name": model.name,
        "api": model.api,
        "baseUrl": redact(model.base_url) or None,
        "contextWindow": model.context_window,
        "maxTokens": model.max_tokens,
        "reasoning": model.reasoning,
        "input": list(model.input),
        "cost": {"input": model.cost.input, "output": model.cost.output},
        "source": row.source,
    }
    if served is not None:
        found["local"] = {
            "loaded": served.loaded,
            "contextMax": served.context_max or None,
            "contextAssumed": served.assumed,
            "tools": served.tools,
        }
    return found


def server_json(server: LocalServer) -> dict[str, Any]:
    """One server for programs."""
    return {
        "kind": server.kind,
        "baseUrl": redact(server.base_url),
        "version": server.version or None,
        "state": server.state,
        "models": len(server.models),
    }


def table(rows: Sequence[Row]) -> list[str]:
    """The lines for a person, their columns aligned."""
    cells = [
        (
            row.name,
            _size(row.model.context_window) + ("?" if row.served is not None and row.served.assumed else ""),
            _size(row.model.max_tokens),
            "".join(("t" if row.model.reasoning else "-", "i" if row.model.sees_images else "-")),
            _price(row.model),
            row.source or "no key",
        )
        for row in rows
    ]
    if not cells:
        return []
    cells.insert(0, ("model", "context", "answer", "can", "$/M in/out", "from"))
    widths = [max(len(row[column]) for row in cells) for column in range(5)]
    return [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[5]]) for row in cells
    ]


def _size(tokens: int) -> str:
    if tokens <= 0:
        return "-"
    return f"{tokens / 1000:.0f}k" if tokens >= 10_000 else str(tokens)


def _price(model: Model) -> str:
    cost = model.cost
    return f"{cost.input:g}/{cost.output:g}" if cost.input or cost.output else "-"
