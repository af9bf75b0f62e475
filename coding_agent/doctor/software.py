"""Edge. Python, the packages, the extras, and the programs the tools use."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib import metadata
from importlib.util import find_spec
from typing import Final

from coding_agent.doctor.finding import Finding, Place

DISTRIBUTION: Final = "lemon-agents"
OLDEST_PYTHON: Final = (3, 11)

REQUIRED: Final[Mapping[str, str]] = {
    "aiojobs": "aiojobs",
    "attrs": "attrs",
    "cattrs": "cattrs",
    "filelock": "filelock",
    "httpx": "httpx",
    "jsonschema": "jsonschema",
    "markdownify": "markdownify",
    "pathspec": "pathspec",
    "prometheus-client": "prometheus_client",
}
"""What every installation has: its name in the registry, and the module that shows it is there."""

EXTRAS: Final[Mapping[str, tuple[tuple[str, ...], str]]] = {
    "terminal": (("prompt_toolkit", "rich", "yaml"), "the interactive terminal, Markdown in exported pages"),
    "acp": (("acp",), "editors that speak the Agent Client Protocol"),
    "mcp": (("mcp",), "servers of the Model Context Protocol"),
    "web": (("starlette", "uvicorn"), "the web page of a host"),
    "browser": (("playwright",), "the browser tool"),
    "images": (("PIL",), "smaller pictures for models"),
    "permissions": (("tree_sitter", "tree_sitter_bash"), "a second opinion on shell commands"),
    "otel": (("opentelemetry",), "traces"),
    "uvloop": (("uvloop",), "a faster event loop"),
    "local": (("xllamacpp",), "a model on this machine"),
    "aws": (("botocore",), "Bedrock with AWS credentials"),
    "vertex": (("google.auth",), "Vertex with Google credentials"),
}
"""The optional parts: the modules that show they are there, and what they are for."""

PROGRAMS: Final[Mapping[str, tuple[tuple[str, ...], str, str]]] = {
    "git": (
        ("--version",),
        "warn",
        "install git: changes cannot be shown or undone by it, and ignore files count less",
    ),
    "rg": (("--version",), "warn", "install ripgrep (package ripgrep): searching is slower, and some patterns need it"),
    "bash": (("--version",), "warn", "install bash: commands run in sh, which knows less"),
}
"""Programs the tools use: how to ask for the version, how bad it is when they are missing, what to do."""

_PATIENCE_S: Final = 5.0


def python(place: Place) -> Iterator[Finding]:
    """The interpreter that runs this."""
    version = ".".join(map(str, sys.version_info[:3]))
    facts = {"version": version, "executable": sys.executable, "platform": sys.platform}
    if sys.version_info[:2] < OLDEST_PYTHON:
        yield Finding("python", "fail", f"{version} is too old", "install Python 3.11 or later", facts)
    else:
        yield Finding("python", "ok", f"{version} at {sys.executable}", facts=facts)


def packages(place: Place) -> Iterator[Finding]:
    """The program's own version, and everything it cannot do without."""
    try:
        own = metadata.version(DISTRIBUTION)
        yield Finding("packages", "ok", f"{DISTRIBUTION} {own}", facts={"version": own})
    except metadata.PackageNotFoundError:
        yield Finding("packages", "ok", "run from a checkout, not installed", facts={"version": None})
    missing = [name for name, module in REQUIRED.items() if not is_there(module)]
    if missing:
        mend = f"pip install {' '.join(missing)}"
        yield Finding("packages", "fail", f"missing: {', '.join(missing)}", mend, {"missing": missing})


def extras(place: Place) -> Iterator[Finding]:
    """The optional parts: one line for what is there, one for what is not."""
    here = [name for name, (modules, _) in EXTRAS.items() if all(map(is_there, modules))]
    away = [name for name in EXTRAS if name not in here]
    facts = {"installed": here, "missing": away}
    yield Finding("extras", "ok", f"installed: {', '.join(here) or 'none'}", facts=facts)
    if "terminal" in away:
        mend = f"pip install '{DISTRIBUTION}[terminal]'"
        yield Finding("extras", "warn", f"without `terminal`: no {EXTRAS['terminal'][1]}", mend)
    others = [f"{name} ({EXTRAS[name][1]})" for name in away if name != "terminal"]
    if others:
        yield Finding("extras", "ok", f"not installed: {', '.join(others)}")


def programs(place: Place) -> Iterator[Finding]:
    """What the tools start."""
    for name, (asking, level, mend) in PROGRAMS.items():
        path = shutil.which(name, path=place.environ.get("PATH"))
        if path is None:
            yield Finding(name, "fail" if level == "fail" else "warn", "is not installed", mend, {"path": None})
            continue
        version = first_line([path, *asking])
        if version is None:
            yield Finding(name, "warn", f"{path} does not run", f"see what `{name} --version` says", {"path": path})
        else:
            yield Finding(name, "ok", f"{version}, {path}", facts={"path": path})


def is_there(module: str) -> bool:
    """Can this module be imported? It is not."""
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def first_line(argv: list[str]) -> str | None:
    """What a program says first; None when it fails, says nothing or does not end."""
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PATIENCE_S,
            check=True,
            env=_plain_environment(),
        )
    except (OSError, subprocess.SubprocessError):
        return None
    lines = done.stdout.decode("utf-8", "replace").splitlines()
    return lines[0].strip() if lines and lines[0].strip() else None


def _plain_environment() -> dict[str, str]:
    """Enough to start a program, and no secrets."""
    return {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "LD_LIBRARY_PATH") if name in os.environ}
