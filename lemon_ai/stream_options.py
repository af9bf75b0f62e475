"""Value. What one model call is made with: the conversation, the tools, the options and the credentials."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from attrs import field, fields

from lemon_ai.messages import Message
from lemon_otp import frozen

if TYPE_CHECKING:
    from lemon_ai.errors import ProviderError

ReasoningLevel: TypeAlias = Literal["minimal", "low", "medium", "high", "xhigh", "max"]
CacheRetention: TypeAlias = Literal["none", "short", "long"]
PayloadHook: TypeAlias = "Callable[[dict[str, Any]], dict[str, Any] | Awaitable[dict[str, Any] | None] | None]"

DEFAULT_STREAM_TIMEOUT_MS = 300_000
DEFAULT_MAX_RETRY_DELAY_MS = 60_000


@frozen
class Tool:
    """A tool as a model sees it.

    Attributes:
        name: What the model calls it by.
        description: What it does, for the model.
        parameters: A JSON Schema whose type is object.
    """

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = field(factory=lambda: {"type": "object", "properties": {}})


def _as_messages(messages: Iterable[Message]) -> tuple[Message, ...]:
    return tuple(messages)


def _as_tools(tools: Iterable[Tool]) -> tuple[Tool, ...]:
    return tuple(tools)


@frozen
class Context:
    """What a model is shown. Messages are in the order they were said."""

    system_prompt: str | None = None
    messages: tuple[Message, ...] = field(default=(), converter=_as_messages)
    tools: tuple[Tool, ...] = field(default=(), converter=_as_tools)


def new_context(
    system_prompt: str | None = None, messages: Iterable[Message] = (), tools: Iterable[Tool] = ()
) -> Context:
    """A context of these parts."""
    return Context(system_prompt, tuple(messages), tuple(tools))


def _blank_is_absent(value: str | None) -> str | None:
    return value or None


@frozen(kw_only=True)
class StreamOptions:
    """How one call is made. Every field may be left out.

    Attributes:
        temperature, max_tokens: None leaves it to the provider.
        api_key: The concrete credential; an empty string counts as none.
        session_id: Names the conversation, for a provider's prompt cache.
        cwd: The caller's working directory; never sent.
        headers: Added to the request, above every other header; names compare without case.
        reasoning: How hard to think; None is off. False switches thinking off where that must be said.
        thinking_budgets: Tokens by level, and a provider's finer settings of thinking and text.
        stream_timeout: Milliseconds for the whole stream; None waits for ever.
        tool_choice: "auto", "any", "none" or the name of a tool.
        project, location, access_token, service_account_json: For Google's clouds.
        provider_options: By provider name, settings only that provider knows.
        cache_retention: How long a provider should keep the prompt.
        max_retry_delay_ms: A longer wait asked for by a server ends the call instead; 0 is no cap.
        max_retries: Replaces the provider's own number of retries.
        retry_base_ms: Replaces the provider's own first wait between tries.
        retry_budget_ms: Time for all tries of the call together; when set, it bounds them instead of their number.
        timeout_ms: Replaces the longest silence allowed while streaming.
        connect_timeout_ms: Replaces the time allowed to open a connection.
        queue_timeout_ms: How long to wait for a slot; 0 fails at once; None takes the dispatcher's own.
        retry_sleep: Waits between tries in place of the clock; what it raises ends the call.
        on_retry: Told before each wait: number of the try, how many there may be, seconds, what had failed.
        transport: "sse", "websocket" or "auto".
        metadata: Sent along where the provider takes it, such as `user_id`.
        on_payload: Sees the request body; what it returns, or gives when it is awaited, is sent instead unless None.
        on_response: Sees the status and the headers of the answer.
    """

    temperature: float | None = None
    max_tokens: int | None = None
    api_key: str | None = field(default=None, repr=False, converter=_blank_is_absent)
    session_id: str | None = None
    cwd: str | None = None
    headers: Mapping[str, str] = field(factory=dict, repr=False)
    reasoning: ReasoningLevel | Literal[False] | None = None
    thinking_budgets: Mapping[str, Any] = field(factory=dict)
    stream_timeout: int | None = DEFAULT_STREAM_TIMEOUT_MS
    tool_choice: str | None = None
    project: str | None = None
    location: str | None = None
    access_token: str | None = field(default=None, repr=False, converter=_blank_is_absent)
    service_account_json: str | Mapping[str, Any] | None = field(default=None, repr=False)
    provider_options: Mapping[str, Mapping[str, Any]] = field(factory=dict, repr=False)
    cache_retention: CacheRetention = "short"
    max_retry_delay_ms: int = DEFAULT_MAX_RETRY_DELAY_MS
    max_retries: int | None = None
    retry_base_ms: int | None = None
    retry_budget_ms: int | None = None
    timeout_ms: int | None = None
    connect_timeout_ms: int | None = None
    queue_timeout_ms: int | None = None
    retry_sleep: Callable[[float], Awaitable[None]] | None = field(default=None, eq=False, repr=False)
    on_retry: Callable[[int, int, float, ProviderError], None] | None = field(default=None, eq=False, repr=False)
    transport: Literal["sse", "websocket", "auto"] = "sse"
    metadata: Mapping[str, Any] = field(factory=dict)
    on_payload: PayloadHook | None = field(default=None, eq=False, repr=False)
    on_response: Callable[[int, Mapping[str, str]], None] | None = field(default=None, eq=False, repr=False)

    @classmethod
    def of(cls, value: StreamOptions | Mapping[str, Any] | Iterable[tuple[str, Any]] | None) -> StreamOptions:
        """Options from options, a mapping, pairs or nothing. Names that are no option are dropped."""
        if value is None:
            return cls()
        if isinstance(value, StreamOptions):
            return value
        known = {attribute.name for attribute in fields(cls)}
        given: dict[str, Any] = dict(value)
        return cls(**{name: item for name, item in given.items() if name in known})

    async def payload_instead(self, body: dict[str, Any]) -> dict[str, Any] | None:
        """What `on_payload` wants sent in place of a request body; None where it, or nobody, wants anything else."""
        given = None if self.on_payload is None else self.on_payload(body)
        return await given if isawaitable(given) else given

    def for_provider(self, provider: str) -> Mapping[str, Any]:
        """The settings for one provider, whichever way its name is spelled."""
        wanted = provider.replace("-", "_")
        for name, settings in self.provider_options.items():
            if name.replace("-", "_") == wanted:
                return settings
        return {}
