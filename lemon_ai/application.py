"""Process. The application `lemon_ai`: what must run before a model can be called.

Tree:
    lemon_ai.supervisor              one_for_one
    ├─ provider_registry
    ├─ stream_task_supervisor        tasks: one provider worker for each call under way
    ├─ provider_supervisor           dynamic: circuit_breaker[p], rate_limiter[p] for each provider p in use
    ├─ call_dispatcher
    └─ model_cache
"""

from __future__ import annotations

from typing import Final

from lemon_ai.call_dispatcher import NAME as DISPATCHER
from lemon_ai.call_dispatcher import SUPERVISOR as PROVIDERS
from lemon_ai.call_dispatcher import CallDispatcher, Config
from lemon_ai.client import SUPERVISOR as STREAMS
from lemon_ai.model_cache import NAME as MODEL_CACHE
from lemon_ai.model_cache import ModelCache
from lemon_ai.provider_registry import NAME as REGISTRY
from lemon_ai.provider_registry import ProviderRegistry
from lemon_ai.providers.builtin import Connections, register_builtin
from lemon_ai.redaction import redact
from lemon_otp import Application, DynamicSupervisor, Pid, Supervisor, TaskSupervisor, clean_reports, get_env, put_env

SUPERVISOR: Final = "lemon_ai.supervisor"
_CONNECTIONS: Final = "connections"


async def _start() -> Pid:
    """Start the tree; the providers of this package are registered before anything can be called.

    From then on crash reports of this runtime are redacted.
    """
    clean_reports(redact)
    ProviderRegistry.init_table()
    config = get_env("lemon_ai", "admission", Config())
    supervisor = await Supervisor.start_link(
        [
            ProviderRegistry.child_spec(None, id=REGISTRY, name=REGISTRY),
            TaskSupervisor.child_spec(id=STREAMS, name=STREAMS),
            DynamicSupervisor.child_spec(id=PROVIDERS, name=PROVIDERS),
            CallDispatcher.child_spec(config.dispatcher, id=DISPATCHER, name=DISPATCHER),
            ModelCache.child_spec(None, id=MODEL_CACHE, name=MODEL_CACHE),
        ],
        strategy="one_for_one",
        name=SUPERVISOR,
    )
    connections = Connections()
    put_env("lemon_ai", _CONNECTIONS, connections)
    await register_builtin(connections)
    return supervisor


async def _close_connections() -> None:
    connections = get_env("lemon_ai", _CONNECTIONS)
    if isinstance(connections, Connections):
        await connections.aclose()


APPLICATION: Final = Application("lemon_ai", _start, stop=_close_connections)
"""Start it with `ensure_all_started(APPLICATION)`."""
