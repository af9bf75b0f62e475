"""Edge. Model calls that are entered in an account before they are made and charged when they end, however they do."""

import inspect
from collections.abc import AsyncIterator
from typing import Any

from attrs import field

from coding_agent.session.budget import Account, Charge
from lemon_agent import events_of, let_go
from lemon_ai import Context, Model, StreamDone, StreamError, StreamOptions, Usage
from lemon_otp import at_exit, define, self_pid


def with_budget(account: Account, stream_fn: Any) -> Any:
    """A `stream_fn` that draws on an account.

    Calling it raises `BudgetExceeded` when a limit stands in the way; the model is then not asked.
    """

    async def budgeted(model: Model, context: Context, options: StreamOptions) -> "ChargedStream":
        charge = account.begin(model)
        at_exit(
            self_pid(), lambda _pid, _reason: charge.settle(Usage())
        )  # killed in the middle, it was made all the same
        try:
            source = stream_fn(model, context, options)
            if inspect.isawaitable(source):
                source = await source
        except BaseException:
            charge.settle(None)
            raise
        return ChargedStream(source, charge, events_of(source))

    return budgeted


@define(eq=False)
class ChargedStream:
    """The events of one call as they come; its charge is settled with the last of them, or when it is given up."""

    source: Any
    charge: Charge
    _events: AsyncIterator[Any] = field(alias="events")
    _latest: Any = None

    def __aiter__(self) -> "ChargedStream":
        return self

    async def __anext__(self) -> Any:
        event = self._latest = await anext(self._events)
        if isinstance(event, StreamDone | StreamError):
            self.charge.settle(event.message.usage)
        return event

    async def aclose(self) -> None:
        """The call is over, or nobody reads on: whatever usage is known is charged."""
        finished = self.charge.settled
        said = getattr(self._latest, "partial", None)
        self.charge.settle(Usage() if said is None else said.usage)
        await let_go(self.source, finished=finished)
