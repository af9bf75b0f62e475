"""Values. How a server stands, and a page with how all those of a session do.

The page is written by the session's `mcp_toolbox`; the session puts itself down. It is read by whoever needs to know at
once what can be typed behind a slash or an @: nobody waits for a server to find that out.
"""

from collections.abc import Iterator
from typing import Literal, TypeAlias

from attrs import define, field, frozen

from coding_agent.mcp.call_clocks import CallClocks
from coding_agent.mcp.entries import ServerEntry
from coding_agent.mcp.listing import Offer, ServerPrompt
from coding_agent.mcp.names import tool_names
from lemon_otp import Pid

State: TypeAlias = Literal["connecting", "ready", "checking", "waiting", "failed"]
"""On the way, connected, perhaps no more connected, between two attempts, or given up until somebody asks."""


@frozen
class Status:
    """How a server stands.

    Attributes:
        name: As configured.
        error: Why it is not connected, or was not last time; None when nothing is wrong.
        offer: What it offers, or did when it was connected last; None when it never was.
        os_pid: Of its program.
    """

    name: str
    state: State
    error: str | None = None
    offer: Offer | None = field(default=None, repr=False)
    os_pid: int | None = None


@frozen
class Reachable:
    """A server one can turn to.

    Attributes:
        address: What its process is registered as.
        clocks: The time that calls to it have left.
    """

    entry: ServerEntry
    address: str
    clocks: CallClocks = field(factory=CallClocks, eq=False, repr=False)


@define(eq=False)
class Standing:
    """How the servers of one session stand.

    Attributes:
        servers: All of them, by name.
        statuses: What is known of each.
        settled: Each has answered, or has failed its first attempt.
        tools_changed: How often the session was given other tools.
        session: Who has the servers; None before one has come.
        waited_for: A prompt has waited for those on their way; no other does.
        told: What a person was told of, so that nothing is told twice.
    """

    servers: dict[str, Reachable] = field(factory=dict)
    statuses: dict[str, Status] = field(factory=dict)
    settled: bool = False
    tools_changed: int = 0
    session: Pid | None = None
    waited_for: bool = False
    told: set[str] = field(factory=set)

    def status(self, server: str) -> Status:
        """How one stands; one that nothing is known of is on its way."""
        return self.statuses.get(server) or Status(server, "connecting")

    def news(self) -> list[str]:
        """What is wrong with servers and was not told yet, a line each."""
        lines = [
            f"MCP: {status.name} is not connected: {status.error}"
            for name in self.servers
            if (status := self.status(name)).error and status.state != "ready"
        ]
        fresh = [line for line in lines if line not in self.told]
        self.told.update(fresh)
        return fresh

    def offers(self) -> Iterator[tuple[Reachable, Offer]]:
        """What those offer that have ever answered, as configured."""
        for name, server in self.servers.items():
            if (offer := self.status(name).offer) is not None:
                yield server, offer

    def prompts(self) -> dict[str, tuple[Reachable, ServerPrompt]]:
        """Every prompt by the name it is typed with, `mcp__SERVER__PROMPT`."""
        listed = {
            (server.entry.name, prompt.name): (server, prompt)
            for server, offer in self.offers()
            for prompt in offer.prompts
        }
        return {name: listed[which] for which, name in tool_names(listed).items()}
