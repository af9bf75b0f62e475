"""Edge. What a host answers beside what every tree does: sessions, model admission, breakers; steer and abort."""

from collections.abc import Mapping
from typing import Any, Final

from coding_agent import client, session_registry
from coding_agent.events import SessionEvent
from coding_agent.repl.ledger import Ledger, Run, Used, ledger
from coding_agent.wire import event_to_wire
from lemon_ai import CallDispatcher, CircuitBreaker, RateLimiter, redact
from lemon_otp import (
    CallTimeout,
    Down,
    Pid,
    introspect,
    monitor,
    monotonic_s,
    receive,
    repl,
    self_pid,
    wall_ms,
    whereis,
)

ANSWER_S: Final = 1.0
STEER_S: Final = 5.0
EVENT_TEXT_MAX: Final = 200


def find_session(target: Any) -> tuple[str, Pid]:
    """The session that is meant: its id or the beginning of it, `session[id]`, or the number of its process.

    Raises:
        repl.Refusal: There is none, or more than one.
    """
    text = str(target or "").removeprefix("session[").removesuffix("]").strip()
    known = {key: pid for key in session_registry.list_ids() if (pid := session_registry.lookup(key)) is not None}
    found = [(key, pid) for key, pid in known.items() if text and key.startswith(text)]
    found = [(key, pid) for key, pid in found if key == text] or found
    if not found and text.isdigit():
        found = [(key, pid) for key, pid in known.items() if pid.id == int(text)]
    if not found:
        raise repl.Refusal(f"no session {text or '(which?)'} runs here; `sessions` lists them", "not_found")
    if len(found) > 1:
        raise repl.Refusal(f"{text} may be {', '.join(key for key, _ in found[:8])}", "ambiguous")
    return found[0]


def look_at_sessions(_: Mapping[str, Any]) -> repl.Answer:
    """Every session: what it is at, how long, and what it has used up here."""
    known = ledger()
    details = {} if known is None else known.details()  # once for all: there may be thousands
    runs = {} if known is None else known.running()
    return {"sessions": [_told_session(key, known, runs.get(key), details) for key in session_registry.list_ids()]}


def _told_session(
    session_id: str, known: Ledger | None, run: Run | None, details: Mapping[Pid, repl.Detail]
) -> dict[str, Any]:
    """One session as plain values."""
    pid = session_registry.lookup(session_id)
    metadata = session_registry.metadata(session_id) or {}
    used = Used() if known is None else known.used.get(session_id, Used())
    now_s = monotonic_s()
    told: dict[str, Any] = {
        "session": session_id,
        "pid": None if pid is None else pid.id,
        "cwd": str(metadata.get("cwd", "")),
        "phase": "idle",
        "tokens": used.tokens,
        "cost": round(used.cost, 6),
        "calls": used.calls,
        "parent": None if known is None else known.parents.get(session_id),
    }
    if run is not None:
        detail = details.get(run.loop, repl.Detail())
        told |= {"model": run.model, **detail.shown, "elapsed_s": round(detail.elapsed_s or 0.0, 3)}
        told |= {"progress_s": round(now_s - run.progress_s, 3), "run_s": round(now_s - run.began_s, 3)}
    return told


async def steer(request: Mapping[str, Any]) -> repl.Answer:
    """Give a session's model a text before its next call."""
    session_id, pid = find_session(request.get("target"))
    text = str(request.get("text") or "").strip()
    if not text:
        raise repl.Refusal("say what the model should be told", "bad_request")
    await client.steer(pid, text)
    return {"text": f"session {session_id} will hear it before its next model call"}


async def abort(request: Mapping[str, Any]) -> repl.Answer:
    """End the run of a session; the session goes on."""
    session_id, pid = find_session(request.get("target"))
    client.abort_async(pid, "aborted from the prompt of an operator")
    try:
        await client.wait_for_idle(pid, timeout_s=STEER_S)
    except CallTimeout:
        return {"text": f"session {session_id} was told and is not idle yet", "idle": False}
    return {"text": f"session {session_id} is idle", "idle": True}


async def ask_dispatcher(_: Mapping[str, Any]) -> repl.Answer:
    """Model calls under way and waiting, by provider."""
    state = await CallDispatcher.get_state()
    providers = sorted({*state.active, *state.queued, *state.caps})
    rows = [
        {
            "provider": provider,
            "active": state.active.get(provider, 0),
            "queued": state.queued.get(provider, 0),
            "cap": state.caps.get(provider, state.default_cap),
        }
        for provider in providers
    ]
    return {"providers": rows, "default_cap": state.default_cap}


async def ask_breakers(_: Mapping[str, Any]) -> repl.Answer:
    """The circuit breaker and the rate limiter of each provider in use."""
    rows = []
    for provider in _providers():
        circuit = await CircuitBreaker.get_state(provider)
        limiter = await RateLimiter.get_state(provider)
        rows.append(
            {
                "provider": provider,
                "state": None if circuit is None else circuit.state,
                "failures": 0 if circuit is None else circuit.failure_count,
                "last_failure": None if circuit is None else circuit.last_failure_reason,
                "retry_in_ms": 0 if circuit is None else circuit.time_until_recovery_ms(monotonic_s()),
                "tokens": None if limiter is None else limiter.available_tokens,
                "capacity": None if limiter is None else limiter.capacity,
            }
        )
    return {"breakers": rows}


def _providers() -> list[str]:
    supervisor = whereis("provider_supervisor")
    nodes = [] if supervisor is None else introspect.tree(supervisor)
    names = [node.id for node in introspect.walk(nodes) if node.id.startswith("circuit_breaker[")]
    return sorted(name.removeprefix("circuit_breaker[").removesuffix("]") for name in names)


async def follow_events(request: Mapping[str, Any], emit: repl.Emit) -> repl.Answer:
    """What a session tells its subscribers, as one line each; without the pieces of growing messages."""
    session_id, pid = find_session(request.get("target"))
    monitor(pid)
    await client.subscribe(pid, self_pid())
    while True:
        match await receive():
            case SessionEvent() as event:
                told = event_to_wire(event, deltas=True)
                if told.get("type") not in ("message_update", "tool_execution_update"):
                    emit({"wall_ms": wall_ms(), "what": str(told.get("type")), "text": short(told)})
            case Down(process=ended) if ended == pid:
                return {"text": f"session {session_id} ended"}


def short(told: Mapping[str, Any]) -> str:
    """The fields of an event that fit on a line."""
    names = ("toolName", "toolCallId", "isError", "args", "reason", "outcome", "from", "to", "message")
    return " ".join(f"{name}={redact(str(told[name]))[:EVENT_TEXT_MAX]}" for name in names if name in told)


OPERATIONS: Final = (
    repl.Operation("events", follow_events, "feed", "follow what a session says"),
    repl.Operation("sessions", look_at_sessions, "look", "every session, and what it is at"),
    repl.Operation("dispatcher", ask_dispatcher, "act", "model calls under way and waiting", timeout_s=ANSWER_S),
    repl.Operation("breakers", ask_breakers, "act", "circuit breakers and rate limiters", timeout_s=2 * ANSWER_S),
    repl.Operation("steer", steer, "act", "give a session's model a text before its next call", timeout_s=STEER_S),
    repl.Operation("abort", abort, "act", "end the run of a session", timeout_s=2 * STEER_S),
)
