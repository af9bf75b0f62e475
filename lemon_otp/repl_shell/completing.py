"""Pure. What may come next on a line: commands, processes by number, name and id, choices and flags."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from attrs import field, frozen

from lemon_otp.introspect import printable
from lemon_otp.repl_shell.commands import Argument, Command, quoted


@frozen
class Names:
    """What can be said for a process.

    Attributes:
        processes: Numbers and ids in the tree.
        registered: Registered names.
        registries: Names of registries.
    """

    processes: Sequence[tuple[int, str]] = ()
    registered: Sequence[str] = ()
    registries: Sequence[str] = ()


@frozen
class Completion:
    """One way to go on.

    Attributes:
        text: What stands in place of the last word.
        back: How many characters of the line it takes the place of.
        meta: What it is, for people.
    """

    text: str
    back: int
    meta: str = field(default="")


def complete(line: str, commands: Mapping[str, Command], names: Names) -> Iterator[Completion]:
    """Every way to go on from here, the likeliest first."""
    words = line.split(" ")
    last = words[-1]
    if len(words) == 1:
        yield from _commands(last, commands)
        return
    command = commands.get(words[0])
    if command is None:
        return
    if last.startswith("--"):
        for flag in command.flags:
            if f"--{flag.name}".startswith(last):
                yield Completion(f"--{flag.name}", len(last), flag.summary)
        return
    place = _place(command, words[1:])
    if place is not None:
        yield from _of_place(place, last, commands, names)


def _place(command: Command, words: Sequence[str]) -> Argument | None:
    """Which argument the last of these words is."""
    given = [word for word in words[:-1] if word and not word.startswith("--")]
    return command.arguments[len(given)] if len(given) < len(command.arguments) else None


def _of_place(place: Argument, last: str, commands: Mapping[str, Command], names: Names) -> Iterator[Completion]:
    if place.choices:
        yield from (Completion(choice, len(last)) for choice in place.choices if choice.startswith(last))
    elif place.want == "target":
        yield from _processes(last, names)
    elif place.want == "registry":
        yield from (Completion(name, len(last)) for name in names.registries if name.startswith(last))
    elif place.want == "command":
        yield from _commands(last, commands)


def _commands(last: str, commands: Mapping[str, Command]) -> Iterator[Completion]:
    for name, command in commands.items():
        if name.startswith(last):
            yield Completion(name, len(last), command.summary)


def _processes(last: str, names: Names) -> Iterator[Completion]:
    if last.isdigit():
        for number, shown in names.processes:
            if str(number).startswith(last):
                yield Completion(str(number), len(last), printable(shown))
        return
    seen: set[str] = set()
    for number, shown in names.processes:
        if shown.startswith(last) and shown not in seen and shown == printable(shown):
            seen.add(shown)
            yield Completion(quoted(shown), len(last), f"pid {number}")
    for name in names.registered:
        if name.startswith(last) and name not in seen and name == printable(name):
            yield Completion(quoted(name), len(last), "registered")
