"""The reference pages of the packages, made from what they export: `python -m tests.architecture.reference --write`."""

import importlib
import inspect
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("lemon_otp", "lemon_ai", "lemon_agent", "coding_agent")


def page_path(package: str) -> Path:
    return ROOT / "docs" / "reference" / f"{package}.md"


def page(package: str) -> str:
    """The page: every public name with the first sentence of its docstring."""
    module = importlib.import_module(package)
    intro = inspect.getdoc(module) or ""
    rows = [
        f"| `{name}` | {kind(getattr(module, name))} | {summary(getattr(module, name))} |"
        for name in sorted(module.__all__)
    ]
    return "\n".join([f"# {package}", "", intro, "", "| name | kind | what it is |", "|---|---|---|", *rows, ""])


def kind(value: Any) -> str:
    if inspect.isclass(value):
        return "error" if issubclass(value, BaseException) else "class"
    if inspect.iscoroutinefunction(value):
        return "async function"
    if inspect.isfunction(value):
        return "function"
    if inspect.ismodule(value):
        return "module"
    return "value"


def summary(value: Any) -> str:
    if not (inspect.isclass(value) or inspect.isroutine(value) or inspect.ismodule(value)):
        return ""
    text = (value.__doc__ or "").strip().split("\n\n")[0]
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    for name in PACKAGES:
        if "--write" in sys.argv:
            page_path(name).write_text(page(name))
        else:
            print(page(name))
