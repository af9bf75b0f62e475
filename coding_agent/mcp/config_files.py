"""Edge. Which configuration files name servers, and what they say together.

A server of the same name in a stronger file replaces the whole entry of a weaker one: the user's files are weakest,
then the repository's, then what the user has for this one repository. What stands in the repository counts only once
the person trusts it; nothing here asks.
"""

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from attrs import evolve, field, frozen

from coding_agent.mcp.entries import BadEntry, Scope, ServerEntry, entry_from
from coding_agent.mcp.places import project_files, user_files

FILE_BYTES_MAX: Final = 32 * 1024 * 1024
SERVERS_MAX: Final = 64


@frozen
class Configured:
    """What all files say together.

    Attributes:
        entries: The servers to run, by their names' order of appearance.
        problems: What cannot be used, a line each, with the name of the server or the file.
        waiting: Servers of the repository that run once it is trusted.
    """

    entries: tuple[ServerEntry, ...] = ()
    problems: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()

    def with_entries(self, entries: Iterable[ServerEntry]) -> "Configured":
        """The same with these servers, which win by name."""
        named = {entry.name: entry for entry in (*self.entries, *entries)}
        return evolve(self, entries=tuple(named.values()))


@frozen
class _File:
    path: Path
    scope: Scope


def read_servers(
    cwd: Path, environ: Mapping[str, str] = os.environ, *, trusted: bool, files: Iterable[Path] | None = None
) -> Configured:
    """What is configured for a project.

    Args:
        cwd: The project folder.
        environ: Where `${NAME}` is looked up, and `HOME`.
        trusted: May what stands in the repository be run?
        files: The repository's files that count, weakest first; None looks for them.

    Never raises for what stands in a file: that is a problem to be shown, and the other servers run.
    """
    reader = _Reader(cwd, environ)
    for path in user_files(environ):
        reader.take(_File(path, "user"))
    for path in project_files(cwd) if files is None else files:
        if path not in user_files(environ):
            reader.take(_File(path, "project"), run=trusted)
    reader.take_local()
    return reader.result()


@frozen
class _Reader:
    cwd: Path
    environ: Mapping[str, str]
    found: dict[str, ServerEntry | None] = field(factory=dict)
    problems: dict[str, str] = field(factory=dict)
    waiting: dict[str, None] = field(factory=dict)
    local: dict[str, Any] = field(factory=dict)

    def take(self, file: _File, *, run: bool = True) -> None:
        content = self._content(file.path)
        if content is None:
            return
        servers = content.get("mcpServers", content.get("servers"))
        if file.path.name == ".claude.json":
            servers = content.get("mcpServers")
            self._note_local(content)
        self._take_servers(servers, file, run)

    def take_local(self) -> None:
        home = Path(self.environ.get("HOME") or Path.home())
        self._take_servers(self.local or None, _File(home / ".claude.json", "local"), True)

    def result(self) -> Configured:
        entries = [entry for entry in self.found.values() if entry is not None]
        problems = [f"{name}: {problem}" if name in self.found else problem for name, problem in self.problems.items()]
        if len(entries) > SERVERS_MAX:
            problems.append(f"{len(entries)} servers are configured; the first {SERVERS_MAX} run")
        return Configured(tuple(entries[:SERVERS_MAX]), tuple(problems), tuple(self.waiting))

    def _take_servers(self, servers: object, file: _File, run: bool) -> None:
        if servers is None:
            return
        if not isinstance(servers, Mapping):
            self.problems[str(file.path)] = f"{file.path}: its servers must be an object"
            return
        for name, raw in servers.items():
            if not run:
                self.waiting[str(name)] = None
                continue
            self.found.pop(name, None)
            self.problems.pop(name, None)
            self.found[name] = None
            try:
                self.found[name] = entry_from(name, raw, self._variables(), scope=file.scope, source=str(file.path))
            except BadEntry as bad:
                self.problems[name] = f"{bad} ({file.path})"

    def _note_local(self, content: Mapping[str, Any]) -> None:
        projects = content.get("projects")
        here = projects.get(str(self.cwd)) if isinstance(projects, Mapping) else None
        servers = here.get("mcpServers") if isinstance(here, Mapping) else None
        if isinstance(servers, Mapping):
            self.local.update(servers)

    def _variables(self) -> Mapping[str, str]:
        home = self.environ.get("HOME") or str(Path.home())
        ours = {
            "workspaceFolder": str(self.cwd),
            "workspaceFolderBasename": self.cwd.name,
            "userHome": home,
            "CLAUDE_PROJECT_DIR": str(self.cwd),
        }
        return {**ours, **self.environ}

    def _content(self, path: Path) -> Mapping[str, Any] | None:
        try:
            with path.open("rb") as file:
                data = file.read(FILE_BYTES_MAX + 1)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            self.problems[str(path)] = f"{path}: {error.strerror or error}"
            return None
        try:
            if len(data) > FILE_BYTES_MAX:
                raise ValueError(f"larger than {FILE_BYTES_MAX} bytes")
            content = json.loads(_without_comments(data.decode("utf-8-sig")))
            if not isinstance(content, dict):
                raise ValueError("not a JSON object")
        except (ValueError, RecursionError) as error:
            self.problems[str(path)] = f"{path}: {str(error)[:200]}"
            return None
        return content


def _without_comments(text: str) -> str:
    """JSON as editors keep it: whole-line `//` comments are blanked, so that line numbers in errors stay right."""
    return "\n".join("" if line.lstrip().startswith("//") else line for line in text.split("\n"))
