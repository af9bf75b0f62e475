"""Value. The operations that every tree answers. The code behind them is imported when one is asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Final

from lemon_otp.repl.operations import Kind, Operation

_TABLE: Final[tuple[tuple[str, Kind, str, str], ...]] = (
    ("tree", "look", "tree_look.look_at_tree", "what runs, as a tree"),
    ("top", "look", "looks.look_at_top", "the busiest processes"),
    ("info", "look", "looks.look_at_info", "everything about one process"),
    ("state", "look", "looks.look_at_state", "what a server holds"),
    ("stack", "look", "looks.look_at_stack", "where a process stands"),
    ("messages", "look", "looks.look_at_messages", "what waits in a mailbox"),
    ("registry", "look", "looks.look_at_registry", "names and registries"),
    ("tables", "look", "looks.look_at_tables", "the tables"),
    ("apps", "look", "looks.look_at_applications", "the applications"),
    ("streams", "look", "looks.look_at_streams", "the event streams: depth, high-water mark, drops"),
    ("zombies", "look", "looks.look_at_zombies", "the dead of which something goes on"),
    ("names", "look", "looks.look_at_names", "what can be said for a process"),
    ("history", "look", "history.look_at_history", "what happened lately"),
    ("log", "look", "history.look_at_log", "the last log records"),
    ("lag", "act", "history.measure_lag", "how late the event loop is"),
    ("kill", "act", "acts.kill", "end a process at once"),
    ("stop", "act", "acts.stop", "ask a process to end in order"),
    ("restart", "act", "acts.restart", "stop a child and start it again"),
    ("suspend", "act", "acts.suspend", "hold a server"),
    ("resume", "act", "acts.resume", "let a suspended server go on"),
    ("send", "act", "acts.send_message", "put a message into a mailbox"),
    ("eval", "act", "acts.evaluate", "run Python in the host"),
    ("trace", "feed", "feeds.trace", "follow a process"),
    ("follow_log", "feed", "feeds.follow_log", "follow the log"),
)

UNSAFE: Final = frozenset({"eval"})


def _later(place: str) -> Callable[..., Any]:
    """The function of this module and name, looked up when it is called."""
    module, name = place.split(".")

    def run(*args: Any) -> Any:
        return getattr(import_module(f"lemon_otp.repl.{module}"), name)(*args)

    return run


BUILT_IN: Final[Mapping[str, Operation]] = {
    name: Operation(name, _later(place), kind, summary, unsafe=name in UNSAFE) for name, kind, place, summary in _TABLE
}
