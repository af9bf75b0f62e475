"""Edge. All extensions of a start: handlers are asked in order, their answers come together, failures are told."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias

from attrs import define, evolve, field

from coding_agent.errors import BadUsage
from coding_agent.events import ExtensionFailed
from coding_agent.extensions import hooks
from coding_agent.extensions.api import OWN_KEYS, Command, Extension, Flag, Handler, OfferedProvider, Shortcut
from coding_agent.extensions.calling import (
    DISCOVER_S,
    EVENT_S,
    FAREWELL_S,
    HANDLER_S,
    HandlerFailed,
    call_handler,
    call_now,
)
from coding_agent.extensions.loading import load_extensions
from coding_agent.extensions.reducers import FAIL_CLOSED, RULES, BadAnswer, Standing, answered
from coding_agent.extensions.session_handle import SessionHandle
from coding_agent.flags import unknown_flags
from coding_agent.hosting.input import CommandInfo
from lemon_agent import AgentTool
from lemon_ai import Catalog
from lemon_otp import describe, error_line

if TYPE_CHECKING:
    from coding_agent.settings import Settings

Report: TypeAlias = Callable[[ExtensionFailed], None]
"""Tells somebody that a handler failed."""


class Blocked(Exception):
    """A handler that guards something failed; the text is what to tell the model."""


@define(eq=False)
class Extensions:
    """What was loaded.

    Attributes:
        loaded: In the order they are asked in.
        problems: What could not be loaded, a line each.
        handler_s: What a handler may take where a run waits for it.
        event_s: What one may take that only hears of something.
        discover_s: What one may take to name skills and templates.
    """

    loaded: list[Extension] = field(factory=list)
    problems: list[str] = field(factory=list)
    handler_s: float = HANDLER_S
    event_s: float = EVENT_S
    discover_s: float = DISCOVER_S
    _listening: "set[asyncio.Future[None]]" = field(factory=set)

    @classmethod
    def load(cls, settings: "Settings", *, trusted: bool) -> "Extensions":
        """Run the registration of every extension there is."""
        loaded, problems = load_extensions(settings, trusted=trusted)
        extensions = cls(loaded, problems)
        extensions.problems += extensions._clashes()
        return extensions

    def _clashes(self) -> list[str]:
        """Names that two extensions have, which the first keeps, and keys that are the terminal's own."""
        owners: dict[str, str] = {}
        found = []
        for extension in self.loaded:
            registered: tuple[tuple[str, dict[str, Any]], ...] = (
                ("/", extension.commands),
                ("--", extension.flags),
                ("the key ", extension.shortcuts),
                ("the renderer of ", extension.renderers),
                ("the provider ", extension.providers),
            )
            for key in OWN_KEYS & set(extension.shortcuts):
                del extension.shortcuts[key]
                found.append(f"extension {extension.name}: the key {key} is the terminal's own")
            for kind, names in registered:
                for name in list(names):
                    owner = owners.setdefault(kind + name, extension.path)
                    if owner != extension.path:
                        del names[name]
                        found.append(f"extension {extension.name}: {kind}{name} is taken by {owner}")
        return found

    def wants(self, *events: str) -> bool:
        """Is there a handler for any of these?"""
        return any(extension.handlers.get(event) for extension in self.loaded for event in events)

    def handlers(self, event: str) -> Sequence[tuple[Extension, Handler]]:
        """Every handler of an event, in order."""
        return [(extension, handler) for extension in self.loaded for handler in extension.handlers.get(event, ())]

    @property
    def commands(self) -> Mapping[str, tuple[Extension, Command]]:
        """Commands by name."""
        return {name: (extension, command) for extension in self.loaded for name, command in extension.commands.items()}

    def listed_commands(self) -> list[CommandInfo]:
        """Commands as they are listed for whoever types."""
        return [
            CommandInfo(name, "extension", command.description, path=extension.path)
            for name, (extension, command) in self.commands.items()
        ]

    @property
    def shortcuts(self) -> Mapping[str, tuple[Extension, Shortcut]]:
        """Shortcuts by key."""
        return {key: (extension, one) for extension in self.loaded for key, one in extension.shortcuts.items()}

    @property
    def renderers(self) -> Mapping[str, tuple[Extension, Handler]]:
        """Renderers by the type of message."""
        return {name: (extension, one) for extension in self.loaded for name, one in extension.renderers.items()}

    @property
    def providers(self) -> Sequence[tuple[Extension, OfferedProvider]]:
        """The providers they bring, in order."""
        return [(extension, one) for extension in self.loaded for one in extension.providers.values()]

    def on_top(self, catalog: Catalog) -> Catalog:
        """The catalogue with the models they bring."""
        for extension, offered in self.providers:
            catalog = offered.on_top(catalog, extension.path)
        return catalog

    # Asking.

    async def ask(
        self, event: Any, session: SessionHandle, report: Report, *, begin: Mapping[str, Any] | None = None
    ) -> Standing:
        """What the handlers of an event come to. One that fails is reported and passed over.

        Args:
            event: One of `hooks`.
            session: The session it is about.
            report: Told of failures.
            begin: What stands before anybody is asked.

        Raises:
            Blocked: A handler failed of an event where that means no.
        """
        rule, told = RULES[event.type]
        standing: Standing = dict(begin or {})
        for extension, handler in self.handlers(event.type):
            try:
                answer = await call_handler(handler, told(event, standing), session, limit_s=self.handler_s)
                standing, last = rule(standing, answered(answer))
            except (HandlerFailed, BadAnswer) as error:
                report(ExtensionFailed(extension.path, event.type, str(error)))
                if event.type in FAIL_CLOSED:
                    raise Blocked(f"the extension {extension.name} could not judge this call: {error}") from error
                continue
            if last:
                break
        return standing

    def ask_now(self, event: Any, report: Report, *, begin: Mapping[str, Any] | None = None) -> Standing:
        """As `ask`, where no event loop runs: the handlers are plain functions and get the event alone."""
        rule, told = RULES[event.type]
        standing: Standing = dict(begin or {})
        for extension, handler in self.handlers(event.type):
            try:
                answer = call_now(handler, told(event, standing), limit_s=self.discover_s)
                standing, last = rule(standing, answered(answer))
            except (HandlerFailed, BadAnswer) as error:
                report(ExtensionFailed(extension.path, event.type, str(error)))
                continue
            if last:
                break
        return standing

    async def tell(self, name: str, event: Any, session: SessionHandle, report: Report) -> None:
        """Let the handlers of an event hear of it."""
        for extension, handler in self.handlers(name):
            try:
                await call_handler(handler, event, session, limit_s=self.event_s)
            except HandlerFailed as error:
                report(ExtensionFailed(extension.path, name, str(error)))

    def begins_listening(self) -> "Callable[[], None]":
        """A listener has begun; what is returned says that it has ended."""
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._listening.add(over)

        def ended() -> None:
            self._listening.discard(over)
            if not over.done():
                over.set_result(None)

        return ended

    async def finished(self) -> None:
        """Return when every listener has said goodbye to its session, or had its time to."""
        if self._listening:
            with suppress(TimeoutError):
                async with asyncio.timeout(FAREWELL_S):
                    for over in list(self._listening):
                        await over

    # What else they bring.

    def tools(self, cwd: str, taken: Sequence[str], problems: list[str]) -> list[AgentTool]:
        """Their tools for a working folder; those whose name is taken are left out and said."""
        names = set(taken)
        found: list[AgentTool] = []
        for extension in self.loaded:
            for made in extension.tools:
                try:
                    tool: Any = made if isinstance(made, AgentTool) else made(cwd)
                except Exception as error:
                    problems.append(f"extension {extension.name}: a tool cannot be made: {error_line(error)}")
                    continue
                if not isinstance(tool, AgentTool):
                    problems.append(f"extension {extension.name}: {describe(tool)} is no AgentTool")
                elif tool.name in names:
                    problems.append(f"extension {extension.name}: the tool name {tool.name} is taken")
                else:
                    names.add(tool.name)
                    found.append(tool)
        return found

    def with_places(self, settings: "Settings") -> "Settings":
        """The settings with the skills and templates that extensions bring."""
        if not self.wants("resources_discover"):
            return settings

        def report(failed: ExtensionFailed) -> None:
            self.problems.append(f"{failed.path}: {failed.event}: {failed.error}")

        found = self.ask_now(hooks.ResourcesDiscover(str(settings.cwd)), report)
        chosen = settings.resources
        return evolve(
            settings,
            resources=evolve(
                chosen,
                skills=(*chosen.skills, *found.get("skill_paths", ())),
                templates=(*chosen.templates, *found.get("prompt_paths", ())),
            ),
        )

    def take_flags(self, words: Sequence[str]) -> None:
        """Give the extensions the flags of the command line that nobody else knows.

        Raises:
            BadUsage: No extension knows one either, or one has no value, or one too many.
        """
        known: dict[str, tuple[Extension, Flag]] = {
            name: (extension, flag) for extension in self.loaded for name, flag in extension.flags.items()
        }
        given: dict[str, Any] = {}
        rest = list(words)
        while rest:
            name, equals, value = rest.pop(0).partition("=")
            if not name.startswith("--") or name[2:] not in known:
                raise BadUsage(unknown_flags(words))
            flag = known[name[2:]][1]
            if flag.kind is bool:
                if equals:
                    raise BadUsage(f"{name} takes no value")
                given[flag.name] = True
            elif equals:
                given[flag.name] = value
            else:
                raise BadUsage(f"{name} needs a value: {name}=VALUE")
        for extension in self.loaded:
            extension.given = {name: value for name, value in given.items() if name in extension.flags}
