"""Edge. What goes along with a session that has servers: its tools follow theirs, also in the middle of a run."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import evolve, field, frozen

from coding_agent import client
from coding_agent.mcp.names import PREFIX
from coding_agent.session.options import SessionOptions
from lemon_agent import NextTurn, TurnContext
from lemon_otp import Pid, cast

if TYPE_CHECKING:
    from coding_agent.mcp.standing import Standing


@frozen
class SessionServers:
    """What goes along with a session that has servers: a companion of `SessionOptions`.

    Attributes:
        toolbox: The registered name of its `mcp_toolbox`; empty when no server runs.
        problems: What could not be used of the configuration.
        waiting: Servers of the repository that run once it is trusted.
        standing: How the servers stand; None when none runs.
    """

    toolbox: str = ""
    problems: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    standing: "Standing | None" = field(default=None, repr=False)

    def join(self, session: Pid, _file: Path, _tell: Callable[..., None]) -> Mapping[str, Any]:
        """Go along with a session: its set of tools follows its servers, and they end with it."""
        if not self.toolbox or self.standing is None:
            return {}
        from coding_agent.mcp.mcp_toolbox import Joined

        if self.standing.session is None or not self.standing.session.alive:
            self.standing.session = session  # at once: a toolbox that is started again looks here
        cast(self.toolbox, Joined(session))
        return {"prepare_next_turn": _Following(session, self.standing, self.standing.tools_changed).next_turn}


class _Following:
    """Lets the next turn of a run have the tools that its session was given meanwhile."""

    def __init__(self, session: Pid, standing: "Standing", seen: int) -> None:
        self._session = session
        self._standing = standing
        self._seen = seen

    async def next_turn(self, turn: TurnContext) -> NextTurn | None:
        """None when nothing has changed since it was asked last."""
        changed = self._standing.tools_changed
        if changed == self._seen:
            return None
        self._seen = changed
        names = {name for name in (await client.get_state(self._session)).active_tools if name.startswith(PREFIX)}
        tools = [tool for tool in (await client.get_options(self._session)).tools if tool.name in names]
        others = [tool for tool in turn.context.tools if not tool.name.startswith(PREFIX)]
        return NextTurn(evolve(turn.context, tools=(*others, *tools)))


def servers_of(options: SessionOptions) -> SessionServers | None:
    """The companion of a session that has servers."""
    return options.companion(SessionServers)


def standing_of(options: SessionOptions) -> "Standing | None":
    """How the servers of a session stand; None when it has none."""
    found = servers_of(options)
    return None if found is None else found.standing
