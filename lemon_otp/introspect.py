"""Pure. Views of what runs: the tree, one process, and both as text.

Looking reads fields and sends no message: it cannot wait for the looked-at, wake it or make it fail, and it goes on
when processes die meanwhile. Every value is shown in a few words, whatever its own repr would do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

from attrs import define, frozen

from lemon_otp.application import ApplicationMaster
from lemon_otp.children import Child
from lemon_otp.dynamic_supervisor import Crowd
from lemon_otp.errors import NoProcess
from lemon_otp.exits import Down
from lemon_otp.family import Family
from lemon_otp.inventory import applications, registries, streams, tables
from lemon_otp.machine import Process
from lemon_otp.pid import ALIVE, MonitorRef, Name, Pid
from lemon_otp.process import current_runtime, resolve
from lemon_otp.scheduler import READY, Scheduler
from lemon_otp.server_process import ServerProcess
from lemon_otp.sizes import size_estimate

__all__ = [
    "ProcessInfo", "TreeNode", "age_s", "applications", "child_of", "children_of", "facts_of", "function_name",
    "info", "messages", "messages_handled", "module_of", "payload", "printable", "registries", "render", "state_of",
    "streams", "tables", "to_json", "tree", "walk",
]  # fmt: skip

Kind: TypeAlias = Literal["supervisor", "worker", "process", "more"]
"""By its spec; a process that no supervisor started; a stand-in for nodes left out."""
State: TypeAlias = Literal["idle", "ready", "busy", "suspended", "restarting", "stopped", "dead"]
"""Waits for a message; can run or runs; waits in the middle of its work; suspended by `sys`; no process now."""

_KEEPERS: Final = (Family, Crowd)
NODES_MAX: Final = 20_000
TEXT_MAX: Final = 120
FACTS_MAX: Final = 16


@define
class TreeNode:
    """One line of the tree. Meant as a value; not frozen, which would make building thousands five times as slow.

    Attributes:
        id: Of its child spec; of a process without one its name, or what it runs.
        pid: None for a child that has no process now.
        module: Dotted path of the module behind it, when known.
        kind: See `Kind`.
        state: See `State`.
        facts: What it said of itself with `annotate`, each in a few words.
        children: Those below it, in the order of starting.
        mailbox_length: Messages it has not yet taken.
        restarts: How often its supervisor has started it again.
        messages_handled: Messages it has taken so far.
    """

    id: str
    pid: Pid | None
    module: str | None
    kind: Kind
    state: State
    facts: Mapping[str, str]
    children: tuple[TreeNode, ...] = ()
    mailbox_length: int = 0
    restarts: int = 0
    messages_handled: int = 0


@frozen
class ProcessInfo:
    """What is known of one process; for a dead one little more than why it ended.

    Attributes:
        pid: The process.
        name: Its registered name.
        label: What it runs, for people.
        module: Dotted path of the module behind it, when known.
        initial_call: The function or server it was started with.
        state: See `State`.
        exit_reason: In a few words, once it is dead.
        current_message: What a server is working on, in a few words.
        current_age_s: How long that has been waiting for something; None when it is not.
        mailbox_length: Messages not yet taken.
        messages_handled: Messages taken so far.
        links: Linked processes.
        monitors: What it monitors, by pid or name.
        monitored_by: Who monitors it.
        parent: Who started it, while that lives.
        ancestors: The parent, and who started that.
        trap_exit: Whether exit signals become messages.
        facts: What it said of itself with `annotate`.
        held_state: A server's state, in a few words.
        memory_bytes: Estimate of what its mailbox, state and facts hold.
        stack: Where its coroutine waits, outermost first.
    """

    pid: Pid
    name: str | None
    label: str | None
    module: str | None
    initial_call: str
    state: State
    exit_reason: str | None
    current_message: str | None
    current_age_s: float | None
    mailbox_length: int
    messages_handled: int
    links: tuple[Pid, ...]
    monitors: tuple[Any, ...]
    monitored_by: tuple[Pid, ...]
    parent: Pid | None
    ancestors: tuple[Pid, ...]
    trap_exit: bool
    facts: Mapping[str, str]
    held_state: str | None
    memory_bytes: int
    stack: tuple[str, ...]


# The tree.


def tree(
    root: Pid | Name | None = None, *, runtime: Scheduler | None = None, max_nodes: int = NODES_MAX
) -> list[TreeNode]:
    """What runs, as a tree.

    Args:
        root: Only what is below this process, itself included; None for everything: the top supervisors of the
            running applications in the order of starting, then what stands beside them.
        runtime: Whose processes; by default the caller's. With it another thread may look, too.
        max_nodes: How many nodes to build; what is left out is counted in a node of the kind "more".
    """
    look = _Look(current_runtime() if runtime is None else runtime, max_nodes)
    if root is not None:
        process = root if isinstance(root, Process) else resolve(root)
        return [] if process is None else [look.node(process, None)]
    return look.everything()


class _Look:
    """One walk over the processes of a runtime."""

    def __init__(self, runtime: Scheduler, max_nodes: int) -> None:
        self.runtime = runtime
        self.left = max_nodes
        self.shown: set[Pid] = set()
        self.children_of: dict[Pid, list[tuple[Process, Child | None]]] = {}
        self.supervised: set[Pid | None] = set()
        hidden: set[Process] = set()
        processes = runtime.live()
        for process in processes:
            if not isinstance(process, ServerProcess):
                continue
            state = process.state
            if isinstance(state, _KEEPERS):
                listed = state.listed()
                if listed:
                    self.children_of[process] = [(child.pid, child) for child in listed]  # type: ignore[misc]
                    self.supervised.update([child.pid for child in listed])
            elif isinstance(process.server, ApplicationMaster):
                hidden.add(process)
        self.tops: list[Process] = []
        self._place_unsupervised(processes, hidden)

    def _place_unsupervised(self, processes: list[Process], hidden: set[Process]) -> None:
        """Put what no supervisor started below its living parent, or on top."""
        supervised = self.supervised
        for process in processes:
            if process in supervised or process in hidden:
                continue
            parent = process.parent
            if parent is None or parent in hidden or parent.parent is None or parent.exit_reason is not ALIVE:
                self.tops.append(process)
            else:
                self.children_of.setdefault(parent, []).append((process, None))

    def everything(self) -> list[TreeNode]:
        applications = [process for process in self.tops if process.parent is not None and _is_master(process.parent)]
        others = [process for process in self.tops if process not in set(applications)]
        nodes = [self.node(process, None) for process in applications + others if self.left > 0]
        left_out = len(self.tops) - len(nodes)
        return [*nodes, _more(left_out)] if left_out else nodes

    def node(self, process: Process | None, child: Child | None) -> TreeNode:
        self.left -= 1
        placed = self.children_of.get(process) if process is not None else None
        if placed is None:
            return _node(process, child, ())
        below: list[TreeNode] = []
        if process not in self.shown:
            self.shown.add(process)  # type: ignore[arg-type]
            for other, spec in placed:
                if self.left <= 0:
                    below.append(_more(len(placed) - len(below)))
                    break
                below.append(self.node(other, spec))
        return _node(process, child, tuple(below))


def _node(process: Process | None, child: Child | None, below: tuple[TreeNode, ...]) -> TreeNode:
    if child is None:
        assert process is not None
        kind: Kind = "supervisor" if children_kept_by(process) is not None else "process"
        node_id, module = process.name or process.label or function_name(process), module_of(process)
        restarts = 0
    else:
        spec, restarts = child.spec, child.restarts
        kind, module, node_id = spec.kind, spec.module, spec.id
        if module is None and process is not None:
            module = module_of(process)
        if type(node_id) is not str:
            node_id = str.__str__(node_id) if isinstance(node_id, str) else in_words(node_id)
        if process is None:
            state: State = "restarting" if child.restarting else "stopped"
            return TreeNode(node_id, None, module, kind, state, {}, below, 0, restarts)
    box, facts = process.mailbox, {} if process.side is None else facts_of(process)
    waiting = len(box) if box else 0
    return TreeNode(node_id, process, module, kind, state_of(process), facts, below, waiting, restarts, process.handled)


def _more(count: int) -> TreeNode:
    return TreeNode(f"… {count} more", None, None, "more", "idle", {})


def _is_master(process: Process) -> bool:
    return isinstance(process, ServerProcess) and isinstance(process.server, ApplicationMaster)


def children_kept_by(process: Process) -> Family | Crowd | None:
    """What a supervisor keeps of its children; None for any other process."""
    state = process.state if isinstance(process, ServerProcess) else None
    return state if isinstance(state, _KEEPERS) else None


def children_of(process: Process) -> list[Child]:
    """A supervisor's children in the order of starting."""
    kept = children_kept_by(process)
    return [] if kept is None else kept.listed()


def child_of(supervisor: Process, process: Process) -> Child | None:
    """What a supervisor keeps of one child, however many it has."""
    kept = children_kept_by(supervisor)
    if isinstance(kept, Crowd):
        return kept.children.get(process)
    return None if kept is None else kept.children.get(kept.ids.get(process))


def walk(nodes: Iterable[TreeNode]) -> Iterator[TreeNode]:
    """Every node, those above before those below."""
    for node in nodes:
        yield node
        yield from walk(node.children)


# One process.


def info(pid: Pid | Name) -> ProcessInfo:
    """What is known of a process, alive or dead.

    Raises:
        NoProcess: Nobody has this name.
    """
    process = _resolved(pid)
    held = process.state if isinstance(process, ServerProcess) else None
    server = isinstance(process, ServerProcess) and process.exit_reason is ALIVE
    working = server and process.coro is not None
    box = process.mailbox or ()
    return ProcessInfo(
        pid=process,
        name=process.name,
        label=process.label,
        module=module_of(process),
        initial_call=process.initial_call(),
        state=state_of(process),
        exit_reason=None if process.exit_reason is ALIVE else in_words(process.exit_reason),
        current_message=in_words(payload(process.last_message)) if working else None,  # type: ignore[attr-defined]
        current_age_s=age_s(process),
        mailbox_length=len(box),
        messages_handled=process.handled,
        links=process.links,
        monitors=tuple(ref.shown for ref in process.monitoring),
        monitored_by=tuple(ref.owner for ref in process.monitors if isinstance(ref, MonitorRef)),
        parent=process.parent,
        ancestors=tuple(process.ancestors()),
        trap_exit=process.trap,
        facts=facts_of(process),
        held_state=in_words(held, 500) if server else None,
        memory_bytes=size_estimate(process, process.facts, held, *list(box)[:100]),
        stack=tuple(_frame_line(frame) for frame in process.get_stack()),
    )


def messages(pid: Pid | Name, *, limit: int = 20) -> list[str]:
    """The oldest messages that wait in a process's mailbox, each in a few words."""
    process = _resolved(pid)
    return [in_words(payload(message)) for message in list(process.mailbox or ())[:limit]]


def state_of(process: Process) -> State:
    """What the process is doing."""
    if process.exit_reason is not ALIVE:
        return "dead"
    if isinstance(process, ServerProcess) and process.sys is not None and process.sys.suspended:
        return "suspended"
    status = process.status
    if status < READY and (process.coro is None or not isinstance(process, ServerProcess)):
        return "idle"
    return "ready" if status == READY else "busy"


def facts_of(process: Process) -> dict[str, str]:
    """What the process said of itself, in a few words."""
    facts = process.facts
    if not facts:
        return {}
    return {
        key: value if type(value) is str and len(value) < 80 else in_words(value)
        for key, value in list(facts.items())[:FACTS_MAX]
    }


def in_words(value: Any, limit: int = TEXT_MAX) -> str:
    """Any value in a few words, at most `limit` characters, without running code of the value's."""
    from lemon_otp.bounded import bounded  # few facts are anything but short texts

    return bounded(value, limit)


def module_of(process: Process) -> str | None:
    """Dotted path of the module whose code the process runs."""
    if isinstance(process, ServerProcess):
        return type(process.server).__module__
    return getattr(process.function, "__module__", None)


def messages_handled(pid: Pid) -> int:
    """How many messages a process has taken; what was taken between two looks says whether it gets anywhere."""
    return pid.handled if isinstance(pid, Process) else 0


def function_name(process: Process) -> str:
    """What a process runs, where nobody has given it a name."""
    if isinstance(process, ServerProcess):
        return type(process.server).__module__.rpartition(".")[2]
    return getattr(process.function, "__name__", type(process.function).__name__)


def _resolved(pid: Pid | Name) -> Process:
    process = pid if isinstance(pid, Process) else resolve(pid)
    if process is None:
        raise NoProcess(pid)
    return process


def age_s(process: Process) -> float | None:
    """How long a process has waited in the middle of its work; None when it is not in the middle of any."""
    if process.exit_reason is not ALIVE or state_of(process) != "busy":
        return None
    return max(0.0, process.runtime.clock.monotonic_s() - process.busy_since_s)


def payload(message: Any) -> Any:
    """A message without the envelope of call and cast."""
    if type(message) is tuple and len(message) in (2, 3) and isinstance(message[0], str) and message[0].startswith("$"):
        return message[-1]
    if isinstance(message, Down):
        return ("Down", message.process, message.reason)
    return message


def _frame_line(frame: Any) -> str:
    code = frame.f_code
    return f"{code.co_filename}:{frame.f_lineno} in {code.co_qualname}"


# As text and as plain data.


def render(nodes: Sequence[TreeNode], *, pids: bool = False) -> str:
    """The tree as text: ids beside module paths, state and facts; control characters are shown, not sent."""
    rows: list[tuple[str, str]] = []
    for node in nodes:
        _rows(node, "", "", rows, pids)
    width = max((len(left) for left, _ in rows), default=0)
    return "\n".join(f"{left:<{width}}  {right}".rstrip() for left, right in rows)


def _rows(node: TreeNode, lead: str, below: str, rows: list[tuple[str, str]], pids: bool) -> None:
    shown = f" {node.pid!r}" if pids and node.pid is not None else ""
    facts = " ".join(f"{key}={value}" for key, value in node.facts.items())
    detail = "" if node.kind == "more" else f"{node.module or '-'}  {node.state}{'  ' if facts else ''}{facts}"
    rows.append((printable(lead + node.id + shown), printable(detail)))
    for index, child in enumerate(node.children):
        last = index == len(node.children) - 1
        _rows(child, below + ("└─ " if last else "├─ "), below + ("   " if last else "│  "), rows, pids)


def printable(text: str) -> str:
    """The text with everything that a terminal might obey written out."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def to_json(node: TreeNode, *, children: bool = True) -> dict[str, Any]:
    """A node, and all below it unless that is not wanted, as JSON values."""
    return {
        "id": node.id,
        "pid": node.pid.id if node.pid is not None else None,
        "module": node.module,
        "kind": node.kind,
        "state": node.state,
        "facts": dict(node.facts),
        "mailbox_length": node.mailbox_length,
        "restarts": node.restarts,
        "messages_handled": node.messages_handled,
        "children": [to_json(child) for child in node.children] if children else [],
    }
