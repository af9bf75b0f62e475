"""Edge. What happens with a line: it is asked over a connection, and the answer is shown. One line, or a prompt.

Exit codes of one line: 0 it was answered, 1 the answer is an error or the host has gone, 2 the line is no command.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, TextIO

from attrs import define, field

from lemon_otp.repl_shell.asking import Asker, Unreachable
from lemon_otp.repl_shell.commands import BadCommand, Command, Query, parse, table, watched
from lemon_otp.repl_shell.completing import Completion, Names, complete
from lemon_otp.repl_shell.drawing import Drawing
from lemon_otp.repl_shell.live import EVERY_S, live
from lemon_otp.repl_shell.render import Renderer, event_page, help_page, render
from lemon_otp.repl_shell.sheets import Page, lines

DONE: Final = 0
FAILED: Final = 1
USAGE: Final = 2
NAMES_S: Final = 2.0
"""How long the names for completion are taken to hold."""
ACT_S: Final = 12.0
SORT_KEYS: Final[Mapping[str, str]] = {"m": "messages", "b": "mailbox", "t": "time", "y": "memory"}


@define
class Shell:
    """Lines over one connection.

    Attributes:
        asker: The connection.
        drawing: Where answers are shown.
        commands: What can be typed.
        renderers: How the operations of packages above are shown.
        unsafe: Whether commands that can do anything are offered.
        as_json: Whether answers are printed as JSON instead.
    """

    asker: Asker
    drawing: Drawing
    commands: Mapping[str, Command] = field(factory=table)
    renderers: Mapping[str, Renderer] = field(factory=dict)
    unsafe: bool = False
    as_json: bool = False
    out: TextIO = field(factory=lambda: sys.stdout)
    _names: Names = field(factory=Names)
    _named_s: float = float("-inf")

    # One line.

    def run(self, line: str, *, once: bool = False) -> int:
        """Do what the line asks and show what comes of it; the exit code.

        Args:
            line: As typed.
            once: Ask what is otherwise live only one time.

        Raises:
            Unreachable: The host has gone.
        """
        try:
            query = parse(line, self.commands)
            if query is None:
                return DONE
            if query.command.unsafe and not self.unsafe:
                raise BadCommand(f"{query.command.name} can do anything in the host: start this program with --unsafe")
            return self._run(query, once)
        except BadCommand as bad:
            self._show(
                Page((lines(f"error: {bad}", meaning="bad"),)), {"ok": False, "error": str(bad), "code": "usage"}
            )
            return USAGE

    def _run(self, query: Query, once: bool) -> int:
        if query.how == "local":
            self._show(help_page(self.commands, query.parameters.get("name"), unsafe=self.unsafe), {"ok": True})
            return DONE
        if query.how == "feed":
            return self._follow(query)
        if query.command.name == "watch":
            inner = watched(str(query.parameters["expression"]), self.commands)
            return self._ask(inner) if once else self._live(inner, float(query.parameters.get("every", EVERY_S)))
        if query.how == "live" and not once:
            return self._live(query, EVERY_S)
        return self._ask(query)

    def _ask(self, query: Query) -> int:
        answer = self._answer(query)
        self._show(render(query.op, answer, self.renderers), answer)
        return DONE if answer.get("ok") else FAILED

    def _answer(self, query: Query) -> dict[str, Any]:
        return self.asker.ask(query.op, timeout_s=ACT_S if query.command.act else None, **query.parameters)

    def _follow(self, query: Query) -> int:
        code = DONE
        try:
            for answer in self.asker.follow(query.op, **query.parameters):
                if answer.get("dropped"):
                    self._show(Page((), (f"{answer['dropped']} events were dropped: this is too slow",)), None)
                if "event" in answer:
                    self._show(event_page(query.op, answer["event"]), answer)
                elif not answer.get("ok") or answer.get("text"):
                    self._show(render(query.op, answer, self.renderers), answer)
                    code = DONE if answer.get("ok") else FAILED
        except KeyboardInterrupt:
            self._show(Page((lines("(left)", meaning="dim"),)), None)
        return code

    def _live(self, query: Query, every_s: float) -> int:
        parameters = dict(query.parameters)
        rates = Rates()

        def ask() -> Page:
            answer = self.asker.ask(query.op, **parameters)
            if query.op == "top":
                rates.add(answer)
            return render(query.op, answer, self.renderers)

        def press(key: str) -> None:
            if query.op == "top" and key in SORT_KEYS:
                parameters["sort"] = SORT_KEYS[key]

        try:
            live(ask, self.drawing, every_s, press)
        except KeyboardInterrupt:
            return DONE
        return DONE

    def _show(self, page: Page, answer: Mapping[str, Any] | None) -> None:
        if not self.as_json:
            self.drawing.show(page)
        elif answer is not None:
            told = {key: value for key, value in answer.items() if key != "id"}
            print(json.dumps(told, default=str), file=self.out, flush=True)

    # Completion.

    def completions(self, text: str) -> Iterator[Completion]:
        """Every way to go on from here. An answer that is late is no answer."""
        now_s = time.monotonic()
        if " " in text and now_s - self._named_s > NAMES_S:
            self._named_s = now_s
            with suppress(Unreachable):
                self._names = names_of(self.asker.ask("names", timeout_s=0.5), self._names)
        offered = self.commands if self.unsafe else {k: c for k, c in self.commands.items() if not c.unsafe}
        yield from complete(text, offered, self._names)


def names_of(answer: Mapping[str, Any], before: Names) -> Names:
    """What the host says can be said for a process; what was known before when it says something else."""
    try:
        return Names(
            tuple((int(number), str(shown)) for number, shown in answer["names"]),
            tuple(map(str, answer["registered"])),
            tuple(map(str, answer.get("registries", ()))),
        )
    except (KeyError, TypeError, ValueError):
        return before


@define
class Rates:
    """Messages a second, from one look at the busiest to the next."""

    _before: dict[int, int] = field(factory=dict)
    _at_s: float = 0.0

    def add(self, answer: dict[str, Any]) -> None:
        """Put the rates into the answer."""
        now_s = time.monotonic()
        passed_s = now_s - self._at_s
        rows = answer.get("rows") or ()
        for row in rows:
            known = self._before.get(row["pid"])
            if known is not None and passed_s > 0:
                row["rate"] = round((row["messages_handled"] - known) / passed_s)
        self._before = {row["pid"]: row["messages_handled"] for row in rows}
        self._at_s = now_s


def run_once(shell: Shell, line: str) -> int:
    """One line for a script; what goes wrong is said as the answer would be."""
    try:
        return shell.run(line, once=True)
    except Unreachable as gone:
        answer = {"ok": False, "error": str(gone), "code": gone.code}
        shell._show(render("", answer), answer)
        return FAILED
    except KeyboardInterrupt:
        return DONE
