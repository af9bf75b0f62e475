"""Value. What the packages say by telemetry and this one listens to, each under one name."""

from typing import Final, TypeAlias

EventName: TypeAlias = tuple[str, ...]

CRASH: Final = ("lemon_otp", "process", "crash")
ZOMBIE: Final = ("lemon_otp", "process", "zombie")
ORPHAN_THREAD: Final = ("lemon_otp", "process", "orphan_thread")
CHILD_RESTART: Final = ("lemon_otp", "supervisor", "restart")
CHILD_START_ERROR: Final = ("lemon_otp", "supervisor", "start_error")
SUPERVISOR_GAVE_UP: Final = ("lemon_otp", "supervisor", "give_up")
LOOP_HELD: Final = ("lemon_otp", "watchdog", "held")
HANDLER_FAILED: Final = ("lemon_otp", "telemetry", "handler_failed")

CALL_ADMITTED: Final = ("lemon_ai", "dispatcher", "dispatch")
CALL_REJECTED: Final = ("lemon_ai", "dispatcher", "rejected")
CALL_RETRY: Final = ("lemon_ai", "retry_helper", "retry")
CALL_START: Final = ("lemon_ai", "model_call", "start")
CALL_STOP: Final = ("lemon_ai", "model_call", "stop")
BREAKER_OPENED: Final = ("lemon_ai", "circuit_breaker", "opened")
BREAKER_REOPENED: Final = ("lemon_ai", "circuit_breaker", "reopened")
BREAKER_HALF_OPENED: Final = ("lemon_ai", "circuit_breaker", "half_opened")
BREAKER_CLOSED: Final = ("lemon_ai", "circuit_breaker", "closed")
BREAKER_CHANGES: Final = (BREAKER_OPENED, BREAKER_REOPENED, BREAKER_HALF_OPENED, BREAKER_CLOSED)

RUN_START: Final = ("lemon_agent", "loop", "start")
RUN_STATE: Final = ("lemon_agent", "loop", "state_transition")
RUN_END: Final = ("lemon_agent", "loop", "end")
TOOL_START: Final = ("lemon_agent", "tool_task", "start")
TOOL_ENTERED: Final = ("lemon_agent", "tool_task", "entered")
TOOL_END: Final = ("lemon_agent", "tool_task", "end")
TOOL_ERROR: Final = ("lemon_agent", "tool_task", "error")
TOOL_RETRY: Final = ("lemon_agent", "tool_task", "retry")
TOOL_ORPHANED: Final = ("lemon_agent", "tool_task", "orphaned")
SUBSCRIBER_COALESCED: Final = ("lemon_agent", "subscriber", "coalesced")
AGENT_SPAWNED: Final = ("lemon_agent", "subagent", "spawn")
AGENT_ENDED: Final = ("lemon_agent", "subagent", "end")

PERMISSION_ASKED: Final = ("coding_agent", "permission", "asked")
PERMISSION_DECIDED: Final = ("coding_agent", "permission", "decided")
SUBAGENT_START: Final = ("coding_agent", "subagent", "start")
LOOP_LAG: Final = ("coding_agent", "loop_lag", "sampled")
