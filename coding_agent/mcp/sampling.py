"""Edge. A server has the session's model answer something: off unless a person's own settings allow it.

Each request is a question of permission, named `mcp_sampling__SERVER`, and is charged to the session's account. The
model sees what the server says and nothing of the conversation, gets no tools, and its answer is bounded.
"""

import inspect
from typing import TYPE_CHECKING, Any, Final

from attrs import evolve

from coding_agent.errors import BudgetExceeded
from coding_agent.mcp.entries import ServerEntry
from coding_agent.mcp.names import plain_part
from coding_agent.session.protocol import GetOptions
from coding_agent.storage.stamps import new_session_id
from coding_agent.tools.images import picture_kind
from lemon_ai import (
    AiError,
    AssistantMessage,
    Context,
    ImageContent,
    Message,
    TextContent,
    Usage,
    UserMessage,
    complete,
    get_text,
)
from lemon_otp import CallFailed, CallTimeout, OtpError, call, wall_ms

if TYPE_CHECKING:
    from coding_agent.mcp.backing import Backing
    from coding_agent.session.options import SessionOptions

MESSAGES_MAX: Final = 50
CHARACTERS_MAX: Final = 200_000
ANSWER_TOKENS_MAX: Final = 8_192
STOP_REASONS: Final = {"stop": "endTurn", "length": "maxTokens"}


class Refused(Exception):
    """The model is not asked; the text says why, for the server."""


def permission_name(server: str) -> str:
    """What permission rules call it."""
    return f"mcp_sampling__{plain_part(server)}"


async def sampled(backing: "Backing", entry: ServerEntry, asked: Any) -> Any:
    """The library's `CreateMessageResult`, or an `ErrorData` that says why there is none. For a process of its own."""
    from mcp_types import INTERNAL_ERROR, CreateMessageResult, ErrorData
    from mcp_types import TextContent as Said

    try:
        options = await _options(backing)
        context = _context(asked)
        await _permitted(backing, entry, asked, context)
        answer = await _answer(options, context, asked)
    except (Refused, BudgetExceeded, AiError, OtpError) as refused:
        return ErrorData(code=INTERNAL_ERROR, message=str(refused)[:500])
    return CreateMessageResult(
        role="assistant",
        content=Said(type="text", text=get_text(answer)),
        model=answer.model,
        stop_reason=STOP_REASONS.get(answer.stop_reason, answer.stop_reason),
    )


async def _options(backing: "Backing") -> "SessionOptions":
    session = backing.standing.session
    try:
        if session is None:
            raise Refused("the session has not begun")
        found: SessionOptions = await call(session, GetOptions())
    except (CallFailed, CallTimeout) as error:
        raise Refused("the session does not answer") from error
    return found


def _context(asked: Any) -> Context:
    """What the model is shown: the server's own words, and those only."""
    if len(asked.messages) > MESSAGES_MAX or not asked.messages:
        raise Refused(f"between 1 and {MESSAGES_MAX} messages can be sent")
    if asked.tools:
        raise Refused("the model gets no tools here")
    messages = tuple(_message(each) for each in asked.messages)
    size = sum(len(block.text) for message in messages for block in message.content if isinstance(block, TextContent))
    if size + len(asked.system_prompt or "") > CHARACTERS_MAX:
        raise Refused(f"more than {CHARACTERS_MAX} characters")
    return Context(asked.system_prompt, messages)


def _message(said: Any) -> Message:
    blocks = said.content if isinstance(said.content, list) else [said.content]
    content = tuple(_block(block) for block in blocks)
    if said.role == "user":
        return UserMessage(content, wall_ms())
    return AssistantMessage(tuple(block for block in content if isinstance(block, TextContent)))


def _block(block: Any) -> TextContent | ImageContent:
    if block.type == "text":
        return TextContent(block.text)
    if block.type == "image":
        import base64

        try:
            kind = picture_kind(base64.b64decode(block.data, validate=True))
        except ValueError:
            kind = None
        if kind is not None and kind.fits:
            return ImageContent(block.data, kind.mime_type)
    raise Refused(f"the model takes no {block.type} of this kind")


async def _permitted(backing: "Backing", entry: ServerEntry, asked: Any, context: Context) -> None:
    """Return when the request may be made.

    Raises:
        Refused: A rule, a person, or nobody being there is against it.
    """
    if backing.gate is None:
        raise Refused("nobody can allow it")
    said = "\n".join(get_text(message) for message in context.messages)
    shown = {"prompt": said, **({"system": asked.system_prompt} if asked.system_prompt else {})}
    if await backing.gate.decide(permission_name(entry.name), "", shown) is not None:
        raise Refused("it was not allowed")


async def _answer(options: "SessionOptions", context: Context, asked: Any) -> AssistantMessage:
    """What the model says; its call is charged like any of the session's."""
    model, account = options.model, options.account
    key = None if options.get_api_key is None else options.get_api_key(model.provider)
    stream_options = evolve(
        options.stream_options,
        api_key=(await key if inspect.isawaitable(key) else key) or options.stream_options.api_key,
        max_tokens=max(1, min(asked.max_tokens, ANSWER_TOKENS_MAX)),
        temperature=asked.temperature,
        reasoning=None,
        session_id=new_session_id(),
        cache_retention="none",
    )
    charge = None if account is None else account.begin(model)
    usage = Usage()  # whoever is killed in the middle has made the call all the same
    try:
        answer = await complete(model, context, stream_options)
        usage = answer.usage
    finally:
        if charge is not None:
            charge.settle(usage)
    return answer
