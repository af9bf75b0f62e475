"""Process. Which models providers said they serve, and when they said it.

Tree:  lemon_ai.supervisor / model_cache, permanent
Emits: nothing
Owns:  the table `lemon_ai.model_cache`, lost on restart: what is not known is asked for again
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

from lemon_ai.environment import canonical
from lemon_ai.models.model import Model
from lemon_otp import Caller, GenServer, NoReply, OtpError, Reply, Request, Table, call, frozen, monotonic_s

NAME: Final = "model_cache"
TABLE: Final = "lemon_ai.model_cache"
DEFAULT_TTL_MS: Final = 300_000


@frozen
class CachedModels:
    """What a provider said last.

    Attributes:
        authoritative: The list is whole: a model that is not in it does not exist.
        updated_s: When it was written, on the runtime's clock.
        age_ms: How long ago that was, when it was read.
        fresh: Whether that is within the time it was read with.
    """

    models: tuple[Model, ...]
    authoritative: bool
    updated_s: float
    age_ms: int
    fresh: bool


@frozen
class CacheStats:
    """What is in the cache: providers, models of all of them, and the age of the oldest entry."""

    providers: int
    models: int
    oldest_ms: int


@frozen
class Write(Request[None]):
    """Remember what a provider serves, in place of what it said before."""

    provider: str
    models: tuple[Model, ...]
    authoritative: bool


@frozen
class Invalidate(Request[None]):
    """Forget what a provider serves; None forgets everything."""

    provider: str | None


_Call: TypeAlias = Write | Invalidate


class ModelCache(GenServer[None, _Call, None, Table]):
    """Remembers what providers serve. Reading is a look into a table; an old entry is given, and said to be old."""

    # Client side: runs in the caller.

    @staticmethod
    def read(provider: str, *, ttl_ms: int = DEFAULT_TTL_MS) -> CachedModels | None:
        """What a provider said last; None when it said nothing, or the application does not run."""
        rows = _rows()
        found = rows.lookup(canonical(provider)) if rows is not None else []
        if not found:
            return None
        _, models, authoritative, updated_s = found[0]
        age_ms = _age_ms(updated_s)
        return CachedModels(models, authoritative, updated_s, age_ms, fresh=age_ms < ttl_ms)

    @staticmethod
    async def write(provider: str, models: Iterable[Model], *, authoritative: bool = False) -> None:
        """Remember what a provider serves from now on."""
        await call(NAME, Write(canonical(provider), tuple(models), authoritative))

    @staticmethod
    async def invalidate(provider: str) -> None:
        """Forget what one provider serves; one that is not known is no error."""
        await call(NAME, Invalidate(canonical(provider)))

    @staticmethod
    async def invalidate_all() -> None:
        """Forget what every provider serves."""
        await call(NAME, Invalidate(None))

    @staticmethod
    def stats() -> CacheStats:
        """How much is remembered."""
        rows = _rows()
        entries = rows.rows() if rows is not None else []
        ages = [_age_ms(updated_s) for *_, updated_s in entries]
        return CacheStats(len(entries), sum(len(models) for _, models, *_ in entries), max(ages, default=0))

    # Server side: runs in the process, one message at a time.

    def init(self, arg: None) -> Table:
        return Table.new(TABLE, access="protected")

    def handle_call(self, message: _Call, caller: Caller, state: Table) -> Reply[Table]:
        match message:
            case Write(provider, models, authoritative):
                state.insert((provider, models, authoritative, monotonic_s()))
            case Invalidate(None):
                state.clear()
            case Invalidate(provider):
                state.delete(provider)
        return Reply(None, state)

    def handle_cast(self, message: None, state: Table) -> NoReply[Table]:
        return NoReply(state)


def _rows() -> Table | None:
    """The table; None where nothing runs that could have made one."""
    try:
        return Table.whereis(TABLE)
    except OtpError:
        return None


def _age_ms(updated_s: float) -> int:
    return round((monotonic_s() - updated_s) * 1000)
