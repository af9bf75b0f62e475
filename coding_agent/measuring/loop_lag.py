"""Process. Says, a few times a second, by how much the event loop is late.

Tree:  coding_agent.supervisor / loop_lag, permanent; stands only where somebody measures: `--metrics`, `--observe`
Emits: telemetry ("coding_agent", "loop_lag", "sampled")
Owns:  one timer; nothing is lost with it
"""

from typing import Final

from attrs import frozen

from coding_agent.application import add_child
from lemon_otp import GenServer, NoReply, monotonic_s, self_pid, send_after, telemetry, whereis

NAME: Final = "loop_lag"
EVERY_S: Final = 0.25


@frozen
class Due:
    """To itself: this should have come at `due_s`."""

    due_s: float


class LoopLag(GenServer[None, None, None, None]):
    """Measures how late its own timer comes; everything else in the program is as late."""

    async def init(self, arg: None) -> None:
        _again()

    async def handle_info(self, message: object, state: None) -> NoReply[None]:
        if isinstance(message, Due):
            lag_s = max(0.0, monotonic_s() - message.due_s)
            telemetry.execute(("coding_agent", "loop_lag", "sampled"), {"lag_s": lag_s}, {})
            _again()
        return NoReply(None)


def _again() -> None:
    send_after(self_pid(), Due(monotonic_s() + EVERY_S), EVERY_S)


async def measure_loop_lag() -> None:
    """See to it that the running host measures its lag."""
    if whereis(NAME) is None:
        await add_child(LoopLag.child_spec(id=NAME, name=NAME))
