"""Value. Every exception lemon_ai raises on purpose.

AiError
├── UnknownModel           no model answers to that name
├── UnknownApi             no provider is registered for that wire format
├── MissingCredential      no key; names the variables that were looked at
├── BadCatalog             a catalogue or an override file breaks its schema
├── BadMessage             a stored message cannot be read
├── BadScript              a script for the scripted or replay provider cannot be used
├── AdmissionRefused       the dispatcher sent nothing
│   ├── CircuitOpen        the provider has been failing
│   ├── RateLimitReached   our own bucket is empty
│   └── MaxConcurrency     no slot came free in time
├── CallCanceled           `complete` ended by a cancel
├── CannotCompact          a conversation has no middle to leave out
└── ProviderError          the provider answered badly, or not at all
    ├── RateLimited        it asked us to slow down
    │   └── QuotaExhausted a plan's limit; waiting a minute will not help
    ├── AuthFailed         the key was refused
    ├── BadRequest         it will refuse the same request again
    ├── Offline            it is on another machine, and this runtime reaches none
    ├── ContextOverflow    the conversation is longer than the model's window
    │   └── CompactionFailed   and could not be made to fit
    ├── ServerFailed       an error of its own
    ├── ProviderUnavailable overloaded, starting or restarting
    │   ├── ProviderUnreachable  no answer: refused, reset, DNS, TLS, timeout
    │   └── StreamTruncated      the answer stopped before its end
    └── ContentRefused     the model or a filter declined to answer
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

from attrs import field

from lemon_otp import SpeaksForItself, define

if TYPE_CHECKING:
    from lemon_ai.messages import AssistantMessage

Category = Literal["rate_limit", "auth", "client", "context_length", "server", "transient", "unknown"]
"""What kind of failure it was; decides retry, failover and the breaker."""

FailoverAction = Literal["next_credential", "next_provider", "compact", "fail", "retry_same"]


class AiError(SpeaksForItself):
    """Base of every error of this package."""

    def __str__(self) -> str:
        return str(getattr(self, "message", "")) or super().__str__()


@define(kw_only=True, eq=False)
class UnknownModel(AiError):
    """No model answers to the name asked for.

    Attributes:
        name: What was asked for.
        close: The closest known names, best first.
    """

    name: str
    close: Sequence[str] = ()

    @property
    def message(self) -> str:
        if not self.close:
            return f"Unknown model {self.name!r}. Write it as provider/model, for example scripted/echo."
        return f"Unknown model {self.name!r}. Close to it: {', '.join(self.close)}."


@define(kw_only=True, eq=False)
class UnknownApi(AiError):
    """No provider is registered for a wire format."""

    api: str
    known: Sequence[str] = ()

    @property
    def message(self) -> str:
        return f"No provider speaks the api {self.api!r}. Registered: {', '.join(self.known) or 'none'}."


@define(kw_only=True, eq=False)
class MissingCredential(AiError):
    """A key is needed and none was given.

    Attributes:
        provider: Its registered name.
        variables: The environment variables that would have been read, in order.
    """

    provider: str
    variables: Sequence[str] = ()
    hint: str = ""

    @property
    def message(self) -> str:
        if self.hint:
            return f"No credential for {self.provider}: {self.hint}"
        wanted = " or ".join(self.variables)
        return f"No API key for {self.provider}. Set {wanted or 'api_key in the stream options'} and try again."


@define(kw_only=True, eq=False)
class BadCatalog(AiError):
    """A model catalogue breaks its schema; nothing of it was loaded."""

    file: str
    path: str
    problem: str

    @property
    def message(self) -> str:
        return f"{self.file}: {self.path + ': ' if self.path else ''}{self.problem}"


@define(kw_only=True, eq=False)
class BadMessage(AiError):
    """A stored message is of a role no model sees, or damaged."""

    problem: str

    @property
    def message(self) -> str:
        return self.problem


@define(kw_only=True, eq=False)
class BadScript(AiError):
    """A script file or a prompt directive of the scripted or replay provider cannot be used."""

    source: str
    problem: str

    @property
    def message(self) -> str:
        return f"{self.source}: {self.problem}"


@define(kw_only=True, eq=False)
class AdmissionRefused(AiError):
    """The dispatcher did not let the call through; nothing was sent."""

    code: ClassVar[str] = "refused"
    provider: str


@define(kw_only=True, eq=False)
class _RefusedForAWhile(AdmissionRefused):
    retry_after_ms: int = 0


class CircuitOpen(_RefusedForAWhile):
    """The provider has been failing, so calls to it rest for a while."""

    code: ClassVar[str] = "circuit_open"

    @property
    def message(self) -> str:
        wait_s = max(1, round(self.retry_after_ms / 1000))
        return f"{self.provider} failed several times in a row; it is tried again in about {wait_s} s."


class RateLimitReached(_RefusedForAWhile):
    """This host's own bucket for the provider is empty."""

    code: ClassVar[str] = "rate_limited"

    @property
    def message(self) -> str:
        return f"Too many requests to {self.provider} from this host; wait {self.retry_after_ms} ms."


@define(kw_only=True, eq=False)
class MaxConcurrency(AdmissionRefused):
    """No slot came free before the wait ran out, or the queue was full; the call never began."""

    code: ClassVar[str] = "max_concurrency"
    waited_ms: int = 0
    queue_depth: int = 0

    @property
    def message(self) -> str:
        return f"All slots of {self.provider} are busy ({self.queue_depth} waiting); gave up after {self.waited_ms} ms."


@define(kw_only=True, eq=False)
class CallCanceled(AiError):
    """The stream behind `complete` was canceled."""

    reason: object = "canceled"

    @property
    def message(self) -> str:
        return f"The model call was canceled: {self.reason}."


@define(kw_only=True, eq=False)
class CannotCompact(AiError):
    """A conversation cannot be shortened.

    Attributes:
        reason: "insufficient_messages" or "unknown_strategy".
        detail: The strategy that was asked for, where that is the problem.
    """

    reason: str
    detail: str = ""

    @property
    def message(self) -> str:
        if self.reason == "unknown_strategy":
            return f"No compaction strategy {self.detail!r}; there are truncation, summarization and hybrid."
        return "The conversation is too short to leave anything out."


@define(kw_only=True, eq=False)
class ProviderError(AiError):
    """A provider answered badly, or not at all.

    Attributes:
        provider: Its registered name, such as "anthropic".
        message: One line for a person, credentials removed.
        status: The HTTP status; None when there was no HTTP answer or the error came inside a stream.
        code, type: The provider's own words, where it gave any.
        provider_message: The provider's own sentence.
        retry_after_s: Seconds it asked us to wait; None when it did not say.
        request_id: The id to quote to the provider's support.
        in_stream: It came inside a stream that had begun.
        partial: What had been said before it failed; None when nothing had.
    """

    category: ClassVar[Category] = "unknown"
    retryable: ClassVar[bool] = False
    failover_action: ClassVar[FailoverAction] = "next_provider"
    trips_breaker: ClassVar[bool] = True

    provider: str
    message: str
    status: int | None = None
    code: str | None = None
    type: str | None = None
    provider_message: str | None = None
    retry_after_s: float | None = None
    request_id: str | None = None
    in_stream: bool = False
    partial: AssistantMessage | None = field(default=None, repr=False)


class RateLimited(ProviderError):
    """The provider asked us to slow down."""

    category: ClassVar[Category] = "rate_limit"
    retryable: ClassVar[bool] = True
    failover_action: ClassVar[FailoverAction] = "next_credential"
    trips_breaker: ClassVar[bool] = False


class QuotaExhausted(RateLimited):
    """A plan's allowance is used up: a retry inside this run cannot help."""

    retryable: ClassVar[bool] = False


class AuthFailed(ProviderError):
    """The credential was refused, or may not use this model."""

    category: ClassVar[Category] = "auth"
    failover_action: ClassVar[FailoverAction] = "next_credential"
    trips_breaker: ClassVar[bool] = False


class BadRequest(ProviderError):
    """The provider refuses this request and would refuse it again."""

    category: ClassVar[Category] = "client"
    failover_action: ClassVar[FailoverAction] = "fail"
    trips_breaker: ClassVar[bool] = False


class Offline(ProviderError):
    """The provider is on another machine, and this runtime was told to reach none. Nothing was sent."""

    category: ClassVar[Category] = "client"
    trips_breaker: ClassVar[bool] = False


class ContextOverflow(ProviderError):
    """The conversation does not fit the model's window."""

    category: ClassVar[Category] = "context_length"
    failover_action: ClassVar[FailoverAction] = "compact"
    trips_breaker: ClassVar[bool] = False


@define(kw_only=True, eq=False)
class CompactionFailed(ContextOverflow):
    """The conversation does not fit, and leaving its middle out did not help.

    Attributes:
        reason: "insufficient_messages", "nothing_to_remove" or "attempts_exhausted".
        attempts: How often it was cut and sent again.
        original: What the provider said.
    """

    failover_action: ClassVar[FailoverAction] = "fail"

    reason: str = "insufficient_messages"
    attempts: int = 0
    original: ContextOverflow | None = field(default=None, repr=False)

    @classmethod
    def after(cls, overflow: ContextOverflow, *, reason: str, attempts: int) -> CompactionFailed:
        """The end of trying to make room after `overflow`."""
        said = reason.replace("_", " ")
        return cls(
            provider=overflow.provider,
            message=f"{overflow.message.rstrip('.')}. It could not be made to fit: {said}.",
            status=overflow.status,
            code=overflow.code,
            type=overflow.type,
            provider_message=overflow.provider_message,
            request_id=overflow.request_id,
            in_stream=overflow.in_stream,
            reason=reason,
            attempts=attempts,
            original=overflow,
        )


class ServerFailed(ProviderError):
    """The provider reported an error of its own."""

    category: ClassVar[Category] = "server"


class ProviderUnavailable(ProviderError):
    """Overloaded, starting or restarting: the same request may work in a moment."""

    category: ClassVar[Category] = "transient"
    retryable: ClassVar[bool] = True


class ProviderUnreachable(ProviderUnavailable):
    """No answer arrived: refused, reset, DNS, TLS, or a timeout."""


class StreamTruncated(ProviderUnavailable):
    """The answer stopped before it was complete."""


class ContentRefused(ProviderError):
    """The model, or a filter in front of it, declined."""

    category: ClassVar[Category] = "client"
    failover_action: ClassVar[FailoverAction] = "fail"
    trips_breaker: ClassVar[bool] = False
