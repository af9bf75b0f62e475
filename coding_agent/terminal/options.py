"""Values. How a terminal shows a conversation."""

from collections.abc import Mapping
from pathlib import Path

from attrs import frozen

from coding_agent.folders import folders
from coding_agent.terminal.theme import DARK, Theme


@frozen
class TerminalOptions:
    """What one start of the terminal was asked for.

    Attributes:
        cwd: The folder that paths on the command line and in pasted text are relative to.
        history_file: Where what was typed is kept; None keeps it for as long as the terminal runs.
        first_prompt: Sent at once.
        colour: Off with `--no-colour`, `NO_COLOR` and a terminal that has none.
        plain: Lines instead of a screen, as for `TERM=dumb`.
        theme: Which colours.
        show_thinking: Whether thinking begins unfolded.
        is_guest: Of a session that goes on when this terminal ends.
        notices: Lines to show at the start.
    """

    cwd: Path
    history_file: Path | None = None
    first_prompt: str | None = None
    colour: bool = True
    plain: bool = False
    theme: Theme = DARK
    show_thinking: bool = False
    is_guest: bool = False
    notices: tuple[str, ...] = ()


def options_from(
    environ: Mapping[str, str],
    cwd: Path,
    *,
    no_colour: bool = False,
    first_prompt: str | None = None,
    is_guest: bool = False,
    notices: tuple[str, ...] = (),
) -> TerminalOptions:
    """The options a person's environment asks for.

    Args:
        environ: `NO_COLOR`, `TERM`, `XDG_STATE_HOME` and `HOME` are looked at.
        cwd: Of the session.
        no_colour: `--no-colour`.
        first_prompt: From the command line.
        is_guest: The session is somebody else's to end.
        notices: Lines to show at the start.
    """
    term = environ.get("TERM", "")
    return TerminalOptions(
        cwd=cwd,
        history_file=folders(environ).state / "history",
        first_prompt=first_prompt,
        colour=not (no_colour or environ.get("NO_COLOR")),
        plain=term in ("", "dumb", "unknown"),
        is_guest=is_guest,
        notices=notices,
    )
