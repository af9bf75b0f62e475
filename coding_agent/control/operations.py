"""Edge. What this host answers through its control socket, beside what every tree does (`lemon_otp.repl`).

A feature adds its own with `lemon_otp.repl.add_operation`, in any process of the host, before or after the listener
starts: the table belongs to the runtime and is read anew for each question.
"""

from collections.abc import Mapping
from typing import Any

from coding_agent.metrics import METRICS
from lemon_otp import get_env, repl


def _metrics(_: Mapping[str, Any]) -> Mapping[str, Any]:
    counted = get_env("coding_agent", METRICS)
    if counted is None:
        raise repl.Refusal("this host counts nothing; start it with --metrics")
    return {"text": counted.exposition()}


def add_host_operations() -> None:
    """Let the calling runtime answer what a host does. What was added before under the same names stays."""
    from coding_agent.repl.operations import OPERATIONS

    known = repl.operations()
    found = (*OPERATIONS, repl.Operation("metrics", _metrics, summary="the Prometheus series of this host"))
    repl.add_operation(*(operation for operation in found if operation.name not in known))
