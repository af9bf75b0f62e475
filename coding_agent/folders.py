"""Edge. Where a person keeps things: `HOME`, `XDG_CONFIG_HOME` and `XDG_STATE_HOME` say where."""

from collections.abc import Mapping
from pathlib import Path

from lemon_otp import frozen


@frozen
class Folders:
    """A person's folders; they need not be there.

    Attributes:
        home: Their home.
        config: Settings of this program.
        state: What this program keeps.
        all_config: Settings of every program.
    """

    home: Path
    config: Path
    state: Path
    all_config: Path


def folders(environ: Mapping[str, str]) -> Folders:
    """The folders of whoever has this environment."""
    home = Path(environ.get("HOME") or Path.home())
    config = Path(environ.get("XDG_CONFIG_HOME") or home / ".config").absolute()
    state = Path(environ.get("XDG_STATE_HOME") or home / ".local" / "state").absolute()
    return Folders(home, config / "lemon", state / "lemon", config)
