"""Edge. A run does not outlast the time its session may take: what goes on then is ended, be it a call or a tool."""

from typing import TYPE_CHECKING

from lemon_otp import frozen, self_pid, send_after

if TYPE_CHECKING:
    from coding_agent.errors import BudgetExceeded
    from coding_agent.session.budget import Account


@frozen
class TimeUp:
    """Sent to the session by itself: its time should be over; `watch` says whether it is."""


def watch(account: "Account | None") -> "BudgetExceeded | None":
    """What says that the account's time is over; while it is not, None, and `TimeUp` comes when it should be."""
    left_s = None if account is None else account.time_left_s()
    if account is None or left_s is None:
        return None
    if left_s > 0:
        send_after(self_pid(), TimeUp(), left_s)
        return None
    return account.time_is_over()
