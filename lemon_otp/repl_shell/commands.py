"""Pure. A line that a person types becomes a query: which operation is asked, with what, and how it is followed.

A command is data. The table here is that of every tree; packages above make a longer one for their programs.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, TypeAlias

from attrs import field, frozen

from lemon_otp.introspect import printable

Want: TypeAlias = Literal["target", "number", "word", "text", "seconds", "registry", "command"]
"""What stands at a place of a line: a process, a whole number, one word, the rest of the line, a time, the name of a
registry, or another command."""
How: TypeAlias = Literal["once", "live", "feed", "local"]
"""Asked once; again and again on a screen of its own; followed until it is left; answered here, without the host."""


class BadCommand(Exception):
    """A line that cannot be understood; the text says what would be."""


@frozen
class Argument:
    """One place of a command.

    Attributes:
        name: What the operation calls it.
        want: What stands there.
        optional: Whether it may be left out.
        choices: The words that may stand there; any, when empty.
    """

    name: str
    want: Want = "target"
    optional: bool = False
    choices: tuple[str, ...] = ()

    def shown(self) -> str:
        """As in a usage line."""
        name = "|".join(self.choices) if self.choices else self.name.upper()
        return f"[{name}]" if self.optional else name


@frozen
class Flag:
    """An option that begins with two dashes."""

    name: str
    parameter: str
    want: Want | None = None
    summary: str = ""


@frozen
class Command:
    """Something that can be typed.

    Attributes:
        name: The first word.
        summary: What it does, on one line.
        arguments: What may follow, in order.
        flags: What may stand anywhere behind it.
        op: The operation asked; the command's name when empty.
        how: See `How`.
        act: Whether it changes anything.
        unsafe: Whether it is offered only to those who asked for `--unsafe`.
    """

    name: str
    summary: str
    arguments: tuple[Argument, ...] = ()
    flags: tuple[Flag, ...] = ()
    op: str = ""
    how: How = "once"
    act: bool = False
    unsafe: bool = False

    def usage(self) -> str:
        """How it is typed."""
        flags = [f"[--{flag.name}{' ' + flag.want.upper() if flag.want else ''}]" for flag in self.flags]
        return " ".join([self.name, *(argument.shown() for argument in self.arguments), *flags])


@frozen
class Query:
    """A line, understood."""

    command: Command
    parameters: Mapping[str, Any] = field(factory=dict)
    how: How = "once"

    @property
    def op(self) -> str:
        """The operation to ask."""
        follows = self.how == "feed" and self.command.how != "feed"
        return f"follow_{self.command.name}" if follows else self.command.op or self.command.name


_TARGET: Final = Argument("target")
_MAYBE: Final = Argument("target", optional=True)
_LIMIT: Final = Flag("limit", "limit", "number", "how many")
_SORTS: Final = ("messages", "mailbox", "time", "memory")

COMMANDS: Final[tuple[Command, ...]] = (
    Command("tree", "what runs, or what is below one process", (_MAYBE,), (Flag("all", "all", summary="every node"),)),
    Command("top", "the busiest processes, live", (Argument("sort", "word", True, _SORTS),), (_LIMIT,), how="live"),
    Command("info", "everything about one process", (_TARGET,)),
    Command(
        "state",
        "what a server holds, or what stands at a path in it",
        (_TARGET, Argument("path", "text", True)),
        (Flag("depth", "depth", "number"), Flag("limit", "limit", "number")),
    ),
    Command("stack", "where a process stands: its Python frames", (_TARGET,)),
    Command("messages", "what waits in a mailbox", (_TARGET,), (_LIMIT,)),
    Command(
        "trace",
        "follow what a server takes and answers",
        (_TARGET,),
        (Flag("events", "events", summary="what telemetry says of it, too"),),
        how="feed",
    ),
    Command("log", "the last log records", (_MAYBE,), (_LIMIT, Flag("follow", "follow", summary="as they come"))),
    Command("history", "what happened lately: exits, restarts, calls", (_MAYBE,), (_LIMIT,)),
    Command(
        "registry", "names and registries, or the entries of one", (Argument("name", "registry", True),), (_LIMIT,)
    ),
    Command("tables", "the tables"),
    Command("apps", "the applications"),
    Command("streams", "the event streams: depth, high-water mark, drops", (), (_LIMIT,)),
    Command("lag", "how late the event loop is"),
    Command("zombies", "the dead of which something goes on"),
    Command(
        "watch",
        "ask again and again: another command, or TARGET.PATH in a state",
        (Argument("expression", "text"),),
        (Flag("every", "every", "seconds", "seconds between two looks"),),
        how="live",
    ),
    Command("kill", "end a process at once", (_TARGET,), act=True),
    Command("stop", "ask a process to end in order", (_TARGET,), act=True),
    Command("restart", "stop a child and start it again", (_TARGET,), act=True),
    Command("suspend", "hold a server: its messages wait", (_TARGET,), act=True),
    Command("resume", "let a suspended server go on", (_TARGET,), act=True),
    Command("send", "put a message into a mailbox", (_TARGET, Argument("message", "text")), act=True),
    Command("eval", "run Python in the host", (Argument("code", "text"),), act=True, unsafe=True),
    Command("help", "what can be asked", (Argument("name", "command", True),), how="local"),
    Command("quit", "leave; the host goes on", how="local"),
)


def table(*more: Iterable[Command]) -> dict[str, Command]:
    """The commands of every tree and these, by name."""
    return {command.name: command for commands in (COMMANDS, *more) for command in commands}


def parse(line: str, commands: Mapping[str, Command]) -> Query | None:
    """What a line asks; None for an empty one.

    Raises:
        BadCommand: It cannot be understood.
    """
    stripped = line.strip()
    if not stripped:
        return None
    name, _, rest = stripped.partition(" ")
    command = commands.get(name) or _abbreviated(name, commands)
    parameters = _parameters(command, rest.strip())
    how = command.how
    if parameters.pop("follow", False):
        how = "feed"
    return Query(command, parameters, how)


def _abbreviated(name: str, commands: Mapping[str, Command]) -> Command:
    """The one command that begins so."""
    found = [command for full, command in commands.items() if full.startswith(name)]
    if len(found) == 1:
        return found[0]
    close = ", ".join(command.name for command in found)
    hint = f"it may be {close}" if found else "`help` lists what there is"
    raise BadCommand(f"there is no command {printable(name)}; {hint}")


def _parameters(command: Command, rest: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    places = list(command.arguments)
    flags = {f"--{flag.name}": flag for flag in command.flags}
    while rest:
        word, after = _first(rest)
        flag = flags.get(word)
        if flag is not None:
            rest = after
            if flag.want is None:
                found[flag.parameter] = True
                continue
            if not rest:
                raise BadCommand(f"--{flag.name} needs a value; usage: {command.usage()}")
            word, rest = _first(rest)
            found[flag.parameter] = _value(Argument(flag.name, flag.want), word)
        elif word.startswith("--") and not (places and places[0].want == "text"):
            raise BadCommand(f"{command.name} has no {printable(word)}; usage: {command.usage()}")
        elif not places:
            raise BadCommand(f"{printable(word)} is too much; usage: {command.usage()}")
        elif places[0].want == "text":
            text, rest = _text(rest, flags)
            found[places.pop(0).name] = text
        else:
            place = places.pop(0)
            found[place.name] = _value(place, word)
            rest = after
    missing = [place for place in places if not place.optional]
    if missing:
        raise BadCommand(f"usage: {command.usage()}")
    return found


def _text(rest: str, flags: Mapping[str, Flag]) -> tuple[str, str]:
    """The rest of the line, up to a flag of the command that ends it."""
    for name in flags:
        before, found, after = rest.rpartition(f" {name} ")
        if found and len(after.split()) == 1:
            return before.strip(), f"{name} {after}"
    return rest, ""


def _first(rest: str) -> tuple[str, str]:
    """The first word, which quotes hold together, and what is behind it."""
    if rest[0] in "'\"":
        end = rest.find(rest[0], 1)
        if end > 0 and (end + 1 == len(rest) or rest[end + 1] == " "):
            return rest[1:end], rest[end + 1 :].strip()
    word, _, after = rest.partition(" ")
    return word, after.strip()


def _value(place: Argument, word: str) -> Any:
    if place.choices and word not in place.choices:
        raise BadCommand(f"{printable(word)} is none of {', '.join(place.choices)}")
    if place.want == "number":
        if not (word.isascii() and word.isdigit() and len(word) < 10):
            raise BadCommand(f"{printable(word)} is no whole number")
        return int(word)
    if place.want == "seconds":
        try:
            seconds = float(word)
        except ValueError:
            seconds = -1.0
        if not 0.05 <= seconds <= 3600:
            raise BadCommand(f"{printable(word)} is no time between 0.05 and 3600 seconds")
        return seconds
    return word


def watched(expression: str, commands: Mapping[str, Command]) -> Query:
    """What `watch` asks again and again: a command that looks, or a path into the state of a process.

    Raises:
        BadCommand: It is neither, or the command changes something.
    """
    name = expression.split(" ", 1)[0]
    command = commands.get(name)
    if command is not None:
        if command.act or command.how in ("feed", "local") or name == "watch":
            raise BadCommand(f"{name} cannot be watched; only what looks can be asked again and again")
        query = parse(expression, commands)
        assert query is not None
        return Query(query.command, query.parameters)
    target, path = split_path(expression)
    return Query(commands["state"], {"target": target, "path": path})


def split_path(expression: str) -> tuple[str, str]:
    """A process and a path in its state: `session[a].model` is `session[a]` and `.model`."""
    depth = 0
    for position, char in enumerate(expression):
        depth += (char == "[") - (char == "]")
        if char == "." and depth == 0 and position:
            return expression[:position], expression[position:]
    return expression, ""


def quoted(word: str) -> str:
    """A word as it can be typed."""
    return shlex.quote(word) if any(char.isspace() for char in word) else word
