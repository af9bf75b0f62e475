"""Edge. Extensions go along with a session: their tools are its tools, their handlers stand at the agent's hooks.

Emits: `ExtensionFailed` to the session whose event it was
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from attrs import evolve, frozen

from coding_agent.events import ExtensionFailed
from coding_agent.extensions import hooks
from coding_agent.extensions.extension_listener import listen
from coding_agent.extensions.reducers import HEARD
from coding_agent.extensions.runner import Blocked, Extensions, Report
from coding_agent.extensions.session_handle import NobodyThere, SessionHandle, UserInterface
from coding_agent.session.options import Companion, SessionOptions, Tell
from coding_agent.session.protocol import model_name
from lemon_agent import AbortSignal, AfterToolCall, BeforeToolCall, Block, ToolOverride, violations
from lemon_ai import Context, Model, StreamOptions
from lemon_otp import Pid, send, spawn_link


def with_extensions(
    options: SessionOptions, extensions: Extensions, ui: UserInterface | None = None, problems: list[str] | None = None
) -> SessionOptions:
    """The options of a session that extensions go along with.

    Args:
        options: Of the session; its companions stand behind the extensions, so that nothing gets past them.
        extensions: Those of this start.
        ui: Questions to the person; None when nobody is there.
        problems: Gets a line for each tool that could not be taken.
    """
    if not extensions.loaded:
        return options
    said: list[str] = []
    names = [tool.name for tool in options.tools]
    tools = extensions.tools(str(options.cwd), [*names, "task", "ask_parent"], said)
    if problems is not None:
        problems += [line for line in said if line not in problems]
    joining = Joining(extensions, ui, options.cwd, options.companions, options.agent_settings)
    hooked = extensions if extensions.wants(*SESSION_EVENTS) else None
    return evolve(
        options,
        tools=(*options.tools, *tools),
        companions=(joining.join,),
        hooks=None if hooked is None else SessionHooks(extensions, ui, options.cwd),
    )


SESSION_EVENTS: Final = ("before_agent_start", "session_before_compact", "session_before_tree")


@frozen
class Joining:
    """What goes along with each session that is started with the same options: the session, its subagents."""

    extensions: Extensions
    ui: UserInterface | None
    cwd: Path
    inner: Sequence[Companion]
    settings: Mapping[str, Any]

    def join(self, session: Pid, file: Path, tell: Tell) -> Mapping[str, Any]:
        """A companion of `SessionOptions`: the others' answers, with the extensions in front."""
        found: dict[str, Any] = {}
        for companion in self.inner:
            found.update(companion(session, file, tell))
        before = {**self.settings, **found}
        listener = self._listener(session, tell)
        hooked = Hooked(self.extensions, handle(self.extensions, session, self.cwd, self.ui), tell, before, listener)
        return {**found, **hooked.settings()}

    def _listener(self, session: Pid, tell: Tell) -> Pid | None:
        if not self.extensions.wants(*HEARD):
            return None
        return spawn_link(
            listen,
            self.extensions,
            handle(self.extensions, session, self.cwd, self.ui),
            tell,
            trap_exit=True,
            label="extension_listener",
        )


def handle(extensions: Extensions, session: Pid, cwd: Path, ui: UserInterface | None) -> SessionHandle:
    """A session as extensions see it."""
    return SessionHandle(session, cwd, ui or NobodyThere(), ui is not None, extensions.listed_commands)


@frozen
class Hooked:
    """The agent's hooks of one session, with extensions in front of whatever stood there before."""

    extensions: Extensions
    session: SessionHandle
    report: Report
    before: Mapping[str, Any]
    listener: Pid | None

    def settings(self) -> dict[str, Any]:
        """Fields of `AgentOptions`; only where a handler is registered."""
        wanted: dict[str, Any] = {}
        wants = self.extensions.wants
        if wants("tool_call"):
            wanted["before_tool_call"] = self.before_tool_call
        if wants("tool_result"):
            wanted["after_tool_call"] = self.after_tool_call
        if wants("context"):
            wanted["transform_context"] = self.transform_context
        if wants("before_provider_request", "before_provider_payload", "after_provider_response"):
            wanted["stream_fn"] = self.stream_fn
        return wanted

    async def before_tool_call(self, told: BeforeToolCall, signal: AbortSignal) -> Any:
        """The first extension that blocks, then whatever stands behind them."""
        event = hooks.ToolCallEvent(told.tool_call.id, told.tool_call.name, dict(told.args))
        try:
            found = await self.extensions.ask(event, self.session, self.report)
        except Blocked as blocked:
            return Block(f"Not allowed: {blocked}. The call was not run.")
        if found.get("block"):
            return Block(found.get("reason"))
        return await self._then("before_tool_call", None, told, signal)

    async def after_tool_call(self, told: AfterToolCall, signal: AbortSignal) -> Any:
        """What stood there before, then the extensions, part by part."""
        earlier = await self._then("after_tool_call", None, told, signal)
        before = _override(earlier)
        event = hooks.ToolResultEvent(
            told.tool_call.id,
            told.tool_call.name,
            dict(told.args),
            before.get("content", told.result.content),
            before.get("details", told.result.details),
            before.get("is_error", told.is_error),
        )
        found = await self.extensions.ask(event, self.session, self.report)
        return earlier if not found else ToolOverride(**{**before, **found})

    async def transform_context(self, messages: tuple[Any, ...], signal: AbortSignal) -> Any:
        """The extensions, then what stood there before; a conversation no model would take is passed over."""
        found = await self.extensions.ask(hooks.ContextEvent(list(messages)), self.session, self.report)
        changed = tuple(found.get("messages", messages))
        if changed != messages and (wrong := list(violations(changed))):
            self.report(ExtensionFailed("", "context", f"the messages make no conversation: {wrong[0]}"))
            changed = messages
        return await self._then("transform_context", changed, changed, signal)

    async def stream_fn(self, model: Model, context: Context, options: StreamOptions) -> Any:
        """A model call with the options and the payload as the extensions leave them."""
        import lemon_ai

        if self.extensions.wants("before_provider_request"):
            event = hooks.BeforeProviderRequest(model_name(model), options)
            found = await self.extensions.ask(event, self.session, self.report, begin={"options": options})
            options = found["options"]
        options = self._watched(model, options)
        source = (self.before.get("stream_fn") or lemon_ai.stream)(model, context, options)
        return await source if inspect.isawaitable(source) else source

    def _watched(self, model: Model, options: StreamOptions) -> StreamOptions:
        response = options.on_response

        async def on_payload(body: dict[str, Any]) -> dict[str, Any] | None:
            changed = await options.payload_instead(body)
            now = body if changed is None else changed
            event = hooks.BeforeProviderPayload(model_name(model), now)
            found = await self.extensions.ask(event, self.session, self.report, begin={"payload": now})
            return found["payload"]  # type: ignore[no-any-return]  # a dict, or `reducers` would have refused it

        def on_response(status: int, headers: Mapping[str, str]) -> None:
            if response is not None:
                response(status, headers)
            if self.listener is not None:
                send(self.listener, hooks.AfterProviderResponse(status, dict(headers)))

        changes: dict[str, Any] = {}
        if self.extensions.wants("before_provider_payload"):
            changes["on_payload"] = on_payload
        if self.extensions.wants("after_provider_response"):
            changes["on_response"] = on_response
        return evolve(options, **changes) if changes else options

    async def _then(self, name: str, default: Any, *args: Any) -> Any:
        inner: Callable[..., Any] | None = self.before.get(name)
        if inner is None:
            return default
        answer = inner(*args)
        return await answer if inspect.isawaitable(answer) else answer


def _override(answer: Any) -> dict[str, Any]:
    """What an earlier hook replaces, by field."""
    from lemon_agent import KEEP

    if answer is None:
        return {}
    names = ("content", "details", "is_error", "usage", "terminate")
    if isinstance(answer, Mapping):
        return {name: answer[name] for name in names if name in answer}
    return {name: value for name in names if (value := getattr(answer, name, KEEP)) is not KEEP}


@frozen
class SessionHooks:
    """What a session asks extensions beside its agent; see `coding_agent.session.hooks`."""

    extensions: Extensions
    ui: UserInterface | None
    cwd: Path

    def wants(self, event: str) -> bool:
        """Is there a handler?"""
        return self.extensions.wants(event)

    async def ask(self, event: Any, session: Pid, tell: Tell) -> Mapping[str, Any]:
        """What the handlers of an event come to; empty when nobody says anything."""
        return await self.extensions.ask(event, handle(self.extensions, session, self.cwd, self.ui), tell)
