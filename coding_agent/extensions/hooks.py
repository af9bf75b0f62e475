"""Values. What handlers are told at the points where they have a say, by the name of the event."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from coding_agent.session.hooks import BeforeAgentStart, BeforeCompact, BeforeTree
from lemon_otp import frozen

__all__ = ["BeforeAgentStart", "BeforeCompact", "BeforeTree"]
"""Those that a session asks about itself stand beside it."""


@frozen
class ContextEvent:
    """A model is about to be asked. Answer the `messages` it is to see this once."""

    type: ClassVar[str] = "context"
    messages: Sequence[Any]


@frozen
class BeforeProviderRequest:
    """As above. Answer `options`: fields of `StreamOptions`; in `headers` and `metadata` None takes one away."""

    type: ClassVar[str] = "before_provider_request"
    model: str
    options: Any


@frozen
class BeforeProviderPayload:
    """The request's body is made. Answer the `payload` to send instead."""

    type: ClassVar[str] = "before_provider_payload"
    model: str
    payload: Mapping[str, Any]


@frozen
class AfterProviderResponse:
    """A provider has begun to answer."""

    type: ClassVar[str] = "after_provider_response"
    status: int
    headers: Mapping[str, str]


@frozen
class ToolCallEvent:
    """A tool is about to run. Answer `block: True` and a `reason` to stop it; a handler that fails stops it too."""

    type: ClassVar[str] = "tool_call"
    tool_call_id: str
    tool_name: str
    input: Mapping[str, Any]


@frozen
class ToolResultEvent:
    """A tool has run. Answer `content`, `details`, `is_error` or `terminate` to change that part of its result."""

    type: ClassVar[str] = "tool_result"
    tool_call_id: str
    tool_name: str
    input: Mapping[str, Any]
    content: Sequence[Any]
    details: Any
    is_error: bool


@frozen
class InputEvent:
    """A person has typed something. Answer `handled: True` to take it over, or another `text` or other `images`."""

    type: ClassVar[str] = "input"
    text: str
    images: Sequence[Any]


@frozen
class UserBash:
    """A person runs a command. Answer `output` and `exit_code` to stand in for it; the first answer wins."""

    type: ClassVar[str] = "user_bash"
    command: str


@frozen
class BeforeSwitch:
    """A client is about to look at another session: `reason` is `new` or `switch`. Answer `cancel: True` to stay."""

    type: ClassVar[str] = "session_before_switch"
    reason: str
    target: str | None


@frozen
class BeforeFork:
    """A client is about to fork the session at an entry. Answer `cancel: True` to stay."""

    type: ClassVar[str] = "session_before_fork"
    entry_id: str | None


@frozen
class ResourcesDiscover:
    """Skills and templates are about to be read. Answer `skill_paths`, `prompt_paths`. Plain functions only."""

    type: ClassVar[str] = "resources_discover"
    cwd: str


@frozen
class SessionStart:
    """A session has begun; it goes on from `message_count` messages."""

    type: ClassVar[str] = "session_start"
    session_id: str
    message_count: int


@frozen
class SessionChanged:
    """A client looks at another session now.

    Attributes:
        type: `session_switch` or `session_fork`.
        reason: `new`, `switch`, `fork` or `clone`.
    """

    type: str
    reason: str
    session_id: str


@frozen
class SessionShutdown:
    """A session has ended; nothing can be asked of it any more."""

    type: ClassVar[str] = "session_shutdown"
    session_id: str
