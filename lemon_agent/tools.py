"""What a tool is and what it answers; `tool_arguments` checks what it is given, `loop/tool_calls` runs it."""

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, Literal, Protocol, TypeAlias, runtime_checkable

from attrs import field

from lemon_agent.abort_signal import AbortSignal
from lemon_agent.checks import is_a
from lemon_agent.errors import REASON_MAX, InvalidTool
from lemon_ai import ImageContent, TextContent, Usage
from lemon_otp import describe, frozen

Trust: TypeAlias = Literal["trusted", "untrusted"]
"""May the model take what a result says as its own working material, or is it someone else's words?"""

RunsOn: TypeAlias = Literal["loop", "thread", "process"]
"""Where a tool runs: on the event loop, in a thread, or in an operating-system process of its own."""

ResultContent: TypeAlias = TextContent | ImageContent
"""What a result may show the model."""


_BLOCKS: Final = (TextContent, ImageContent)


def _as_blocks(content: str | Iterable[ResultContent]) -> tuple[ResultContent, ...]:
    """A text is one block. What is no block has no place in a conversation: it would make every later call fail."""
    if isinstance(content, str):
        return (TextContent(content),)
    blocks = tuple(content)
    for block in blocks:
        if not isinstance(block, _BLOCKS):
            raise TypeError(f"content is made of text and image blocks, not of {type(block).__name__}")
    return blocks


def _as_names(names: Iterable[str] | None) -> tuple[str, ...] | None:
    if names is None:
        return None
    listed = (names,) if isinstance(names, str) else tuple(names)
    if not all(isinstance(name, str) for name in listed):
        raise TypeError("added_tool_names are the names of tools")
    return listed


def normal_trust(trust: object) -> Trust:
    """`"untrusted"` as it is; every other value, None included, is `"trusted"`."""
    return "untrusted" if trust == "untrusted" else "trusted"


@frozen
class ErrorInfo:
    """Why a call ended in an error, for programs; the model reads the text beside it."""

    type: str
    reason: Any = None
    exception: str | None = None


@frozen
class AgentToolResult:
    """What a tool answers, at the end or, through `on_update`, on the way.

    `content` is all the model sees, a text being one block; `details` is for logs and screens and never leaves the
    machine. Raises TypeError for what is no content, no usage or no names.
    """

    content: tuple[ResultContent, ...] = field(default=(), converter=_as_blocks)
    details: Any = None
    trust: str | None = "trusted"
    usage: Usage | None = field(default=None, validator=is_a(Usage, or_none=True))
    added_tool_names: tuple[str, ...] | None = field(default=None, converter=_as_names)
    """Tools of the agent's wider pool that the model may call from its next turn on."""
    terminate: bool | None = None
    """A hint to stop after this turn, followed when every call of the batch gives it."""
    error_info: ErrorInfo | None = None


OnUpdate: TypeAlias = Callable[[AgentToolResult], None]
"""Report what there is so far, all of it each time. Never blocks, never fails, ignored once the call has ended."""

Execute: TypeAlias = Callable[
    [str, dict[str, Any], AbortSignal | None, OnUpdate | None],
    Awaitable[Any] | Any,
]
"""`execute(tool_call_id, params, signal, on_update)`.

Returns an `AgentToolResult`, `("ok", result)` or `("error", reason)`; raises `ToolError` to fail.
A tool in a process of its own gets None for `signal` and `on_update`: nothing of ours can be called from there.
"""


@frozen
class RetryRule:
    """When a call of an idempotent tool is made again. Aborted and timed-out calls never are."""

    max_attempts: int = 2
    backoff_ms: int = 100
    """Before the second attempt; doubled before each one after."""
    retry_on: tuple[str, ...] = ("tool_exception", "tool_task_crashed")
    """The `ErrorInfo.type` values worth another attempt."""

    def delay_s(self, attempt: int) -> float:
        """Seconds to wait before attempt number `attempt`, the first being 1."""
        return 0.0 if attempt <= 1 else self.backoff_ms * 2 ** (attempt - 2) / 1000


@frozen(eq=False)
class AgentTool:
    """Something the model may ask for. Two are the same only when they are one object."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    """A JSON schema whose root is an object."""
    execute: Execute = field(repr=False)
    label: str = ""
    """For people; empty means the name."""
    on: RunsOn | None = None
    """None: a coroutine runs on the loop, a plain function in a thread, where it cannot hold up anybody else."""
    timeout_ms: int | None = None
    """Overrides the agent's own; None leaves it to the agent."""
    sequential: bool = False
    """One such call in a batch makes the whole batch run one call at a time."""
    idempotent: bool = False
    retry: RetryRule | None = None
    prepare_arguments: Callable[[Any], Any] | None = field(default=None, repr=False)
    """Turns an old or sloppy shape of the arguments into today's, before they are checked."""
    main_argument: str | None = None
    """The argument that says most about a call; what the process tree shows. None: the first string."""

    def __attrs_post_init__(self) -> None:
        if self.retry is not None and not self.idempotent:
            raise InvalidTool(f"{self.name}: only a tool declared idempotent may be retried")

    @property
    def runs_on(self) -> RunsOn:
        """Where it runs, decided."""
        if self.on is not None:
            return self.on
        return "loop" if is_async(self.execute) else "thread"


def is_async(function: Callable[..., Any]) -> bool:
    """Is calling it going to give a coroutine?"""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


@runtime_checkable
class ToolFactory(Protocol):
    """Builds a tool for a working directory, anew each time, so that text and schema show today's settings."""

    def __call__(self, cwd: str, **options: Any) -> AgentTool:
        """A fresh tool for `cwd`."""
        ...


def text_result(text: str, details: Any = None, *, trust: Trust = "trusted") -> AgentToolResult:
    """A result of one text block."""
    return AgentToolResult(content=(TextContent(text),), details=details, trust=trust)


def error_text(reason: object) -> str:
    """A reason as the model reads it: a string as it stands, anything else as `describe` shows it."""
    return reason if isinstance(reason, str) else describe(reason, REASON_MAX)


def error_result(
    reason: object, error_type: str, *, exception: str | None = None, details: Any = None
) -> AgentToolResult:
    """A result that says a call failed, with the cause beside it for programs."""
    text = error_text(reason)
    info = ErrorInfo(type=error_type, reason=reason, exception=exception)
    return AgentToolResult(content=(TextContent(text),), details=details, error_info=info)
