"""Edge. What each run of a model is at, how long, and what its session has used up; kept from telemetry.

A plain handler of a few events a turn. The numbers are those of this host, since it started; the session file is not
read. A run that is over leaves only its session's sums.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from attrs import field

from coding_agent import event_names, session_registry
from lemon_otp import Pid, alive, current_runtime, define, introspect, monotonic_s, repl, self_pid, telemetry

HANDLER_ID: Final = "coding_agent.ledger"
STORED: Final = "coding_agent.ledger"
SESSIONS_MAX: Final = 10_000
"""Sessions whose sums are kept; the one that was used longest ago goes first."""
CHILD_TOOLS: Final = frozenset({"task", "agent", "ask_parent"})
"""Tools that wait for another agent."""

Event: TypeAlias = tuple[str, ...]
Mapped: TypeAlias = Mapping[str, Any]


@define(eq=False)
class Working:
    """A tool call that is going on."""

    name: str
    since_s: float
    pid: Pid | None = None


@define(eq=False)
class Run:
    """A run that is going on.

    Attributes:
        loop: Its process.
        began_s: When it began.
        progress_s: When anything last happened in it.
        calls: Model calls under way.
        tools: Tool calls under way, by their ids.
        asking: Calls whose permission is asked for, and since when.
        told: How many messages the agent had taken when somebody last looked: pieces of an answer are no events here.
    """

    session_id: str
    loop: Pid
    model: str
    began_s: float
    progress_s: float
    calls: dict[int, float] = field(factory=dict)
    tools: dict[str, Working] = field(factory=dict)
    asking: dict[str, float] = field(factory=dict)
    told: int | None = None

    def phase(self) -> tuple[str, str, float]:
        """What it waits for, the tool if that is one, and since when."""
        if self.asking:
            call_id, since_s = next(iter(self.asking.items()))
            return "permission", self.tools[call_id].name if call_id in self.tools else "", since_s
        if self.tools:
            oldest = min(self.tools.values(), key=lambda working: working.since_s)
            only_children = all(working.name in CHILD_TOOLS for working in self.tools.values())
            more = f" and {len(self.tools) - 1} more" if len(self.tools) > 1 else ""
            return "child" if only_children else "tool", oldest.name + more, oldest.since_s
        if self.calls:
            return "model", "", next(iter(self.calls.values()))
        return "working", "", self.progress_s


@define(eq=False)
class Used:
    """What a session has used up since this host started."""

    tokens: int = 0
    cost: float = 0.0
    calls: int = 0


@define(eq=False)
class Ledger:
    """The runs of this host and the sums of its sessions."""

    runs: dict[Pid, Run] = field(factory=dict)
    used: dict[str, Used] = field(factory=dict)
    parents: dict[str, str] = field(factory=dict)
    _call_of: dict[int, tuple[Run | None, str]] = field(factory=dict)

    @classmethod
    def start(cls) -> "Ledger":
        """The ledger of the calling runtime, kept from now on."""
        found: Ledger | None = current_runtime().store.get(STORED)
        if found is None:
            found = current_runtime().store[STORED] = cls()
            for event, take in found._takers().items():
                telemetry.attach(f"{HANDLER_ID}.{'.'.join(event)}", event, take)
            repl.add_details("coding_agent", found.details)
        return found

    def stop(self) -> None:
        """Keep it no longer."""
        for event in self._takers():
            telemetry.detach(f"{HANDLER_ID}.{'.'.join(event)}")
        current_runtime().store.pop(STORED, None)

    def _takers(self) -> Mapping[telemetry.EventName, telemetry.Handler]:
        """A handler for each event: what it is need not be found out again at each."""
        return {
            event_names.RUN_START: self._run_began,
            event_names.RUN_END: self._run_ended,
            event_names.CALL_START: self._call_began,
            event_names.CALL_STOP: self._call_ended,
            event_names.TOOL_START: self._tool_began,
            event_names.TOOL_ENTERED: self._tool_entered,
            event_names.TOOL_END: self._tool_ended,
            event_names.TOOL_ERROR: self._tool_ended,
            event_names.PERMISSION_ASKED: self._asked,
            event_names.PERMISSION_DECIDED: self._decided,
            event_names.SUBAGENT_START: self._subagent_began,
        }

    # The telemetry handlers.

    def _run_began(self, _event: Event, _measured: Mapped, told: Mapped, _: Any) -> None:
        self._forget_dead()
        now_s, me = monotonic_s(), self_pid()
        self.runs[me] = Run(str(told.get("session_id") or ""), me, str(told.get("model")), now_s, now_s)

    def _run_ended(self, _event: Event, _measured: Mapped, _told: Mapped, _: Any) -> None:
        self.runs.pop(self_pid(), None)

    def _call_began(self, _event: Event, _measured: Mapped, told: Mapped, _: Any) -> None:
        run = self.runs.get(self_pid())
        self._call_of[told["call_id"]] = (run, "" if run is None else run.session_id)
        if run is not None:
            run.calls[told["call_id"]] = run.progress_s = monotonic_s()

    def _call_ended(self, _event: Event, measured: Mapped, told: Mapped, _: Any) -> None:
        run, session_id = self._call_of.pop(told["call_id"], (None, ""))
        if run is not None:
            run.calls.pop(told["call_id"], None)
            run.progress_s = monotonic_s()
        used = self.used.pop(session_id, None) or Used()
        used.tokens += sum(
            measured.get(f"{kind}_tokens", 0) for kind in ("input", "output", "cache_read", "cache_write")
        )
        used.cost += measured.get("cost", 0.0)
        used.calls += 1
        self.used[session_id] = used  # now the one used last
        while len(self.used) > SESSIONS_MAX:
            del self.used[next(iter(self.used))]

    def _tool_began(self, _event: Event, _measured: Mapped, told: Mapped, _: Any) -> None:
        run = self.runs.get(self_pid())
        if run is not None:
            run.progress_s = now_s = monotonic_s()
            run.tools[told["tool_call_id"]] = Working(told["tool_name"], now_s)

    def _tool_entered(self, _event: Event, _measured: Mapped, told: Mapped, _: Any) -> None:
        run = self.runs.get(told["loop"])
        working = None if run is None else run.tools.get(told["tool_call_id"])
        if working is not None:
            working.pid = self_pid()

    def _tool_ended(self, _event: Event, _measured: Mapped, told: Mapped, _: Any) -> None:
        run = self.runs.get(self_pid())
        if run is not None:
            run.tools.pop(told["tool_call_id"], None)
            run.progress_s = monotonic_s()

    def _asked(self, _event: Event, _measured: Mapped, told: Mapped, _: Any) -> None:
        run = self.runs.get(self_pid())
        if run is not None:
            run.asking[told["tool_call_id"]] = run.progress_s = monotonic_s()

    def _decided(self, _event: Event, _measured: Mapped, told: Mapped, _: Any) -> None:
        run = self.runs.get(self_pid())
        if run is not None and run.asking.pop(told["tool_call_id"], None) is not None:
            run.progress_s = monotonic_s()

    def _subagent_began(self, _event: Event, _measured: Mapped, told: Mapped, _: Any) -> None:
        self.parents[str(told.get("session_id"))] = str(told.get("parent_session_id"))
        while len(self.parents) > SESSIONS_MAX:
            del self.parents[next(iter(self.parents))]

    def _forget_dead(self) -> None:
        """A run whose process was killed may not have said that it is over."""
        for loop in [loop for loop in self.runs if not alive(loop)]:
            del self.runs[loop]

    # For whoever looks.

    def running(self) -> dict[str, Run]:
        """The runs that go on, by their sessions."""
        return {run.session_id: run for run in list(self.runs.values()) if alive(run.loop)}

    def details(self) -> Mapping[Pid, repl.Detail]:
        """What is known of the processes of runs and sessions."""
        now_s = monotonic_s()
        sessions = {
            key: pid for key in session_registry.list_ids() if (pid := session_registry.lookup(key)) is not None
        }
        below: dict[str, list[Pid]] = {}
        for child, parent in list(self.parents.items()):
            if child in sessions:
                below.setdefault(parent, []).append(sessions[child])
        runs = self.running()
        for session_id, run in runs.items():
            if session_id in sessions:
                _notice(run, sessions[session_id], now_s)
        found = {run.loop: _detail(run, now_s) for run in runs.values()}
        for session_id, pid in sessions.items():
            used = self.used.get(session_id, Used())
            base = found[runs[session_id].loop] if session_id in runs else repl.Detail({"phase": "idle"})
            found[pid] = repl.Detail(
                base.shown, base.elapsed_s, base.progress_s, used.tokens, used.cost, tuple(below.get(session_id, ()))
            )
        return found


def _notice(run: Run, session: Pid, now_s: float) -> None:
    """A run has got on since the last look when its agent or session has taken anything, such as a piece of an answer.

    Pieces reach the session by way of the agent, or past it while that is at rest.
    """
    agent = getattr(getattr(session, "state", None), "agent", None)
    if isinstance(agent, Pid):
        taken = introspect.messages_handled(agent) + introspect.messages_handled(session)
        if run.told is not None and taken != run.told:
            run.progress_s = now_s
        run.told = taken


def _detail(run: Run, now_s: float) -> repl.Detail:
    phase, tool, since_s = run.phase()
    shown = {"phase": phase}
    if tool:
        shown["tool"] = tool
    argument = _argument(run)
    if argument:
        shown["argument"] = argument
    return repl.Detail(shown, now_s - since_s, now_s - run.progress_s)


def _argument(run: Run) -> str:
    """The main argument of the tool call that has been going on longest, as its process tells it."""
    for working in sorted(run.tools.values(), key=lambda working: working.since_s):
        process: Any = working.pid
        if process is not None and alive(process):
            return introspect.facts_of(process).get("argument", "")
    return ""


def ledger() -> Ledger | None:
    """The ledger of the calling runtime, if it has one."""
    found: Ledger | None = current_runtime().store.get(STORED)
    return found
