"""Pure. Which process a person means: by its number, its registered name, or its id in the tree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from lemon_otp import introspect
from lemon_otp.children import Child
from lemon_otp.machine import Process
from lemon_otp.pid import ALIVE
from lemon_otp.process import current_runtime
from lemon_otp.repl.operations import Refusal

SHOWN_MAX: Final = 8


def find(target: Any, *, alive: bool = False, exact: bool = False) -> Process:
    """The process that `target` means: `12`, `session_registry`, `session[abc]`, or the beginning of one id.

    With `exact`, for whoever does something to it, the beginning of an id must reach into its key: `session[ab`.

    The dead are found by their number while something of them is left: a coroutine or a thread that goes on.

    Raises:
        Refusal: There is none, or more than one; the text lists them.
    """
    text = str(target).strip() if isinstance(target, str | int) and not isinstance(target, bool) else ""
    if not text:
        raise Refusal("say which process: its number, its name, or its id in the tree", "bad_request")
    process = _by_number(text) or current_runtime().names.get(text) or _by_id(text, exact)
    if process is None:
        raise Refusal(f"there is no process {text}; `tree` lists them", "not_found")
    if alive and process.exit_reason is not ALIVE:
        raise Refusal(f"{text} is dead already", "dead")
    return process


def _by_number(text: str) -> Process | None:
    number = text.lstrip("<#").rstrip(">").removeprefix("pid").strip()
    if not (number.isascii() and number.isdigit() and len(number) < 20):
        return None
    runtime = current_runtime()
    found = runtime.processes.get(int(number))
    if found is not None:
        return found
    gone = (*runtime.zombies, *runtime.orphans)
    return next((process for process in (*runtime.live(), *gone) if process.id == int(number)), None)


def _by_id(text: str, exact: bool) -> Process | None:
    *above, wanted = text.split("/")
    nodes = [
        node
        for node, path in _paths(introspect.tree(), ())
        if node.pid is not None and _fits(path, above, node, wanted)
    ]
    whole = [node for node in nodes if node.id == wanted]
    meant = whole or nodes
    shown = ", ".join(f"{node.id} (pid {node.pid.id})" for node in meant[:SHOWN_MAX] if node.pid is not None)
    if len(meant) > 1:
        more = f" and {len(meant) - SHOWN_MAX} more" if len(meant) > SHOWN_MAX else ""
        raise Refusal(f"{text} may be {shown}{more}; say its number", "ambiguous")
    if exact and meant and not whole and "[" not in wanted:
        raise Refusal(f"say the whole id, or the number, of what something is done to: {shown}", "ambiguous")
    found = meant[0].pid if meant else None
    return found if isinstance(found, Process) else None


def _fits(path: tuple[str, ...], above: list[str], node: introspect.TreeNode, wanted: str) -> bool:
    if not node.id.startswith(wanted):
        return False
    rest = iter(path)
    return all(any(step.startswith(part) for step in rest) for part in above)


def _paths(
    nodes: Iterable[introspect.TreeNode], above: tuple[str, ...]
) -> Iterator[tuple[introspect.TreeNode, tuple[str, ...]]]:
    for node in nodes:
        yield node, above
        yield from _paths(node.children, (*above, node.id))


def supervised(process: Process) -> tuple[Process, Child] | None:
    """The supervisor that started the process and what it keeps of it; None for a process on its own."""
    supervisor = process.parent
    child = None if supervisor is None else introspect.child_of(supervisor, process)
    return None if supervisor is None or child is None else (supervisor, child)


def child_id(child: Child) -> str:
    """What a supervisor calls a child, as the tree shows it."""
    spec_id = child.spec.id
    return str.__str__(spec_id) if isinstance(spec_id, str) else introspect.in_words(spec_id)


def tree_id(process: Process) -> str:
    """What the tree calls the process."""
    found = supervised(process)
    return process.name or process.label or introspect.function_name(process) if found is None else child_id(found[1])
