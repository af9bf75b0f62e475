"""Value. What an extension registers: handlers, tools, commands, flags, shortcuts, renderers, providers."""

import inspect
import logging
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from attrs import define, field

from coding_agent.errors import BadExtension
from coding_agent.extensions.reducers import EVENTS, PLAIN_ONLY
from lemon_agent import AgentTool
from lemon_ai import BadCatalog, Catalog, Provider, default_catalog
from lemon_otp import error_trace, frozen

Handler: TypeAlias = Callable[..., Any]
"""`handler(event, session)`, plain or async. Answers None, or a mapping with what the event asks for."""

_log: Final = logging.getLogger(__name__)
_COMMAND: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_:.-]{0,63}")
_FLAG: Final = re.compile(r"[a-z][a-z0-9-]{1,63}")
_KEY: Final = re.compile(r"ctrl\+[a-z]|alt\+[a-z0-9]|f(?:[1-9]|1[0-9]|20)")

OWN_KEYS: Final = frozenset(f"ctrl+{letter}" for letter in "cdhijlmoptz")
"""Keys that are the terminal's own, or that terminals cannot tell from Tab, Enter and Backspace."""


@frozen
class Command:
    """Something a person types behind a slash.

    Attributes:
        run: `run(args, session)`, plain or async; a text it answers is shown.
    """

    name: str
    run: Handler
    description: str = ""


@frozen
class Flag:
    """A flag of the command line.

    Attributes:
        kind: `bool` needs no value, `str` one.
    """

    name: str
    kind: type
    default: Any = None
    description: str = ""


@frozen
class Shortcut:
    """A key that a person presses while they write.

    Attributes:
        key: `ctrl+LETTER`, `alt+LETTER`, `alt+DIGIT`, or `f1` to `f20`.
        run: `run(session)`, plain or async; a text it answers is shown.
    """

    key: str
    run: Handler
    description: str = ""


@frozen
class OfferedProvider:
    """Models that an extension brings.

    Attributes:
        config: What a `models.json` says of a provider.
        provider: Answers for them; None where they speak a wire format that is known.
    """

    name: str
    config: Mapping[str, Any]
    provider: Provider | None = None

    @property
    def api(self) -> str:
        """What its own wire format is called here, so that it can stand for no other."""
        return f"extension_{self.name}"

    def on_top(self, catalog: Catalog, file: str) -> Catalog:
        """The catalogue with these models. Raises `BadCatalog` where the configuration cannot be meant."""
        spoken = {} if self.provider is None else {"api": self.api}
        document = {"providers": {self.name: {**self.config, **spoken}}}
        return catalog.with_overrides(document, file=file, apis=(self.api,))


@define(eq=False)
class EventBus:
    """Lets extensions of one start hear of each other: names and values of their own."""

    _heard: dict[str, list[Callable[[Any], None]]] = field(factory=dict, repr=False)

    def on(self, name: str, handler: Callable[[Any], None]) -> Callable[[], None]:
        """Call a plain function with whatever is emitted under a name; what is returned ends that."""
        handlers = self._heard.setdefault(name, [])
        handlers.append(handler)

        def stop() -> None:
            if handler in handlers:
                handlers.remove(handler)

        return stop

    def emit(self, name: str, value: Any = None) -> None:
        """Call everybody who listens, in order. What one raises is logged, and the others still hear."""
        for handler in list(self._heard.get(name, ())):
            try:
                handler(value)
            except Exception as error:
                _log.error("a listener to %r failed\n%s", name, error_trace(error))


@define(eq=False)
class Extension:
    """One extension, while it registers and afterwards.

    Attributes:
        name: What it is called by.
        path: Its file, or the object that was installed.
        events: The same for every extension of a start.
    """

    name: str
    path: str
    events: EventBus = field(factory=EventBus, repr=False)
    handlers: dict[str, list[Handler]] = field(factory=dict, repr=False)
    tools: list[AgentTool | Callable[[str], AgentTool]] = field(factory=list, repr=False)
    commands: dict[str, Command] = field(factory=dict, repr=False)
    flags: dict[str, Flag] = field(factory=dict, repr=False)
    shortcuts: dict[str, Shortcut] = field(factory=dict, repr=False)
    renderers: dict[str, Handler] = field(factory=dict, repr=False)
    providers: dict[str, OfferedProvider] = field(factory=dict, repr=False)
    given: Mapping[str, Any] = field(factory=dict, repr=False)

    def on(self, event: str, handler: Handler | None = None) -> Any:
        """Call `handler(event, session)` from now on; without a handler, a decorator for one.

        Raises:
            BadExtension: There is no such event, or the handler is async where nothing can be waited for.
        """
        if handler is None:
            return lambda function: self.on(event, function) or function
        if event not in EVENTS:
            raise BadExtension(self.name, f"there is no event {event!r}; there are {', '.join(sorted(EVENTS))}")
        if not callable(handler):
            raise BadExtension(self.name, f"the handler of {event} cannot be called")
        if event in PLAIN_ONLY and inspect.iscoroutinefunction(handler):
            raise BadExtension(self.name, f"the handler of {event} must be a plain function, not an async one")
        self.handlers.setdefault(event, []).append(handler)
        return None

    def register_tool(self, tool: AgentTool | Callable[[str], AgentTool]) -> None:
        """Give every session this tool, or the one a function makes for its working folder.

        One with the name of a built-in tool is not taken, and said.
        """
        if not isinstance(tool, AgentTool) and not callable(tool):
            raise BadExtension(self.name, "a tool is an AgentTool, or a function that makes one")
        self.tools.append(tool)

    def register_command(self, name: str, run: Handler | None = None, *, description: str = "") -> Any:
        """Let a person type `/name words`; without a handler, a decorator for one.

        Raises:
            BadExtension: It cannot be a name.
        """
        if run is None:
            return lambda function: self.register_command(name, function, description=description) or function
        if not _COMMAND.fullmatch(name) or not callable(run):
            raise BadExtension(self.name, f"{name!r} cannot be a command")
        self.commands[name] = Command(name, run, description)
        return None

    def register_flag(self, name: str, kind: type = bool, *, default: Any = None, description: str = "") -> None:
        """Take `--name` on the command line; `flag` gives its value.

        Raises:
            BadExtension: It cannot be a flag.
        """
        if not _FLAG.fullmatch(name) or kind not in (bool, str):
            raise BadExtension(self.name, f"--{name} cannot be a flag: small letters, digits and -, for bool or str")
        self.flags[name] = Flag(name, kind, False if kind is bool and default is None else default, description)

    def register_shortcut(self, key: str, run: Handler | None = None, *, description: str = "") -> Any:
        """Let a person press `key` in the terminal; without a handler, a decorator for one.

        One of the terminal's own keys, or of another extension's, is not taken, and said.

        Raises:
            BadExtension: There is no such key.
        """
        if run is None:
            return lambda function: self.register_shortcut(key, function, description=description) or function
        named = key.lower()
        if not _KEY.fullmatch(named) or not callable(run):
            raise BadExtension(
                self.name, f"{key!r} cannot be a shortcut: ctrl+LETTER, alt+LETTER, alt+DIGIT, f1 to f20"
            )
        self.shortcuts[named] = Shortcut(named, run, description)
        return None

    def register_message_renderer(self, custom_type: str, render: Handler | None = None) -> Any:
        """Let clients show what `render(message)` answers, as Markdown, for custom messages of this type.

        What the model reads and what is stored stay as they are. Without a handler, a decorator for one.

        Raises:
            BadExtension: It is no type of a message.
        """
        if render is None:
            return lambda function: self.register_message_renderer(custom_type, function) or function
        if not custom_type or not isinstance(custom_type, str) or not callable(render):
            raise BadExtension(self.name, f"a renderer of {custom_type!r} cannot be")
        self.renderers[custom_type] = render
        return None

    def register_provider(self, name: str, config: Mapping[str, Any], *, provider: Provider | None = None) -> None:
        """Offer models under `name/MODEL`, or send those of a built-in provider elsewhere.

        The person's own `models.json` has the last word.

        Args:
            name: Of the provider.
            config: What a `models.json` says of one: `baseUrl`, `api`, `apiKey`, `models`, `modelOverrides`, ...
            provider: Answers for its models, in a wire format of its own.

        Raises:
            BadExtension: The configuration cannot be meant; the text says what of it.
        """
        offered = OfferedProvider(name, dict(config), provider)
        if provider is not None and not isinstance(provider, Provider):
            raise BadExtension(self.name, "a provider has an `api` and a `stream`; see lemon_ai.Provider")
        try:
            offered.on_top(default_catalog(), self.path)
        except BadCatalog as error:
            raise BadExtension(self.name, str(error)) from error
        self.providers[name] = offered

    def flag(self, name: str) -> Any:
        """The value of a flag: given, or its default. Known once every extension has registered."""
        return self.given.get(name, self.flags[name].default if name in self.flags else None)
