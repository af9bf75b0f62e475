"""Value. The series of a host: which telemetry event counts into which of them, and with which labels."""

from collections.abc import Mapping
from typing import Final, TypeAlias

from lemon_otp import frozen

Event: TypeAlias = tuple[str, ...]

LABELS_MAX: Final = 100
"""How many different values of a label are told apart; what comes after is `other`."""

SECONDS: Final = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
LAG_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


@frozen
class Count:
    """A counter: one for every event. `labels` maps the names of the metadata to those of the labels."""

    name: str
    text: str
    labels: Mapping[str, str]


_CHILD: Final = {"supervisor": "supervisor", "id": "child"}
_PROVIDER: Final = {"provider": "provider"}
_TOOL: Final = {"tool_name": "tool"}

COUNTS: Final[Mapping[Event, Count]] = {
    ("lemon_otp", "process", "crash"): Count("lemon_process_crashes", "Processes that ended badly.", {}),
    ("lemon_otp", "process", "zombie"): Count(
        "lemon_process_zombies", "Reports of coroutines that outlive their process.", {}
    ),
    ("lemon_otp", "process", "orphan_thread"): Count(
        "lemon_process_orphan_threads", "Threads that go on although their process has ended.", {}
    ),
    ("lemon_otp", "supervisor", "restart"): Count("lemon_supervisor_restarts", "Children started again.", _CHILD),
    ("lemon_otp", "supervisor", "start_error"): Count(
        "lemon_supervisor_start_errors", "Children that did not start.", _CHILD
    ),
    ("lemon_otp", "supervisor", "give_up"): Count(
        "lemon_supervisor_gave_up", "Supervisors that gave up.", {"supervisor": "supervisor"}
    ),
    ("lemon_otp", "watchdog", "held"): Count("lemon_loop_held", "Times something held the event loop too long.", {}),
    ("lemon_otp", "telemetry", "handler_failed"): Count(
        "lemon_telemetry_handler_failures", "Telemetry handlers that raised and were detached.", {}
    ),
    ("lemon_ai", "dispatcher", "dispatch"): Count("lemon_model_calls", "Model calls admitted.", _PROVIDER),
    ("lemon_ai", "dispatcher", "rejected"): Count(
        "lemon_model_calls_rejected", "Model calls refused before anything was sent.", {**_PROVIDER, "reason": "reason"}
    ),
    ("lemon_ai", "retry_helper", "retry"): Count(
        "lemon_model_retries", "Model calls made again.", {**_PROVIDER, "category": "category"}
    ),
    ("lemon_agent", "loop", "start"): Count("lemon_runs_started", "Runs begun.", {}),
    ("lemon_agent", "tool_task", "start"): Count("lemon_tool_calls", "Tool calls begun.", _TOOL),
    ("lemon_agent", "tool_task", "error"): Count(
        "lemon_tool_failures", "Tool calls that crashed, hung, were stopped or refused.", _TOOL
    ),
    ("lemon_agent", "tool_task", "retry"): Count("lemon_tool_retries", "Tool calls made again.", _TOOL),
    ("lemon_agent", "tool_task", "orphaned"): Count(
        "lemon_tool_orphans", "Tool calls whose thread could not be stopped.", _TOOL
    ),
    ("lemon_agent", "subscriber", "coalesced"): Count(
        "lemon_subscribers_coalesced", "Times a subscriber fell behind and got only the newest updates.", {}
    ),
    ("coding_agent", "permission", "decided"): Count(
        "lemon_permission_decisions", "Tool calls allowed or refused.", {"decision": "decision", "by": "by"}
    ),
    ("coding_agent", "subagent", "start"): Count("lemon_subagents_started", "Subagents begun.", {"role": "role"}),
}

BREAKER: Final = ("lemon_ai", "circuit_breaker")
BREAKER_CHANGES: Final = ("opened", "reopened", "half_opened", "closed")
MODEL_CALL_STOP: Final = ("lemon_ai", "model_call", "stop")
RUN_END: Final = ("lemon_agent", "loop", "end")
TOOL_START: Final = ("lemon_agent", "tool_task", "start")
TOOL_END: Final = ("lemon_agent", "tool_task", "end")
TOOL_ERROR: Final = ("lemon_agent", "tool_task", "error")
LAG: Final = ("coding_agent", "loop_lag", "sampled")

EVENTS: Final[tuple[Event, ...]] = tuple(
    dict.fromkeys(
        [
            *COUNTS,
            *((*BREAKER, change) for change in BREAKER_CHANGES),
            MODEL_CALL_STOP,
            RUN_END,
            TOOL_START,
            TOOL_END,
            TOOL_ERROR,
            LAG,
        ]
    )
)

TOKEN_KINDS: Final = ("input", "output", "cache_read", "cache_write")
