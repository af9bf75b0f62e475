"""Which provider answers with which credential: plans, what rests after a failure, and going on to the next.

Start with `RoutedStream`: `AgentOptions(stream_fn=RoutedStream(fallbacks, sources))`.
"""

from lemon_agent.model_runtime.cooldowns import Cooldowns, Rest
from lemon_agent.model_runtime.credentials import Credential, Sources
from lemon_agent.model_runtime.first_answer import Attempt, FirstAnswer
from lemon_agent.model_runtime.model_router import ModelRouter
from lemon_agent.model_runtime.routed_stream import RoutedStream
from lemon_agent.model_runtime.routing import (
    Candidate,
    Facts,
    Pins,
    Profile,
    Rotation,
    Routing,
    decision,
    plan,
    preview,
    provider_status,
    selected,
)

__all__ = [
    "Attempt",
    "Candidate",
    "Cooldowns",
    "Credential",
    "Facts",
    "FirstAnswer",
    "ModelRouter",
    "Pins",
    "Profile",
    "Rest",
    "Rotation",
    "RoutedStream",
    "Routing",
    "Sources",
    "decision",
    "plan",
    "preview",
    "provider_status",
    "selected",
]
