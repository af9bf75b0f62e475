"""Process. Wire formats to the providers that speak them.

Tree:  lemon_ai.supervisor / provider_registry, permanent
Asked: Register, Unregister, Clear; reads go to the table and ask nobody
Owns:  nothing: the table belongs to the application, so what was registered outlives a restart of this process
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

from attrs import field

from lemon_ai.environment import canonical
from lemon_ai.errors import UnknownApi
from lemon_ai.provider import Provider
from lemon_otp import Caller, GenServer, NoReply, Reply, Request, Table, call, define, frozen

NAME: Final = "provider_registry"
TABLE: Final = "lemon_ai.providers"


@define(eq=False)
class Entry:
    """A registered provider, made when it is first used."""

    api: str
    make: Callable[[], Provider]
    _made: Provider | None = field(default=None, init=False)

    def provider(self) -> Provider:
        """The one instance."""
        if self._made is None:
            self._made = self.make()
        return self._made


@frozen
class Lazy:
    """Where a provider's class is, so that only what is used is imported."""

    module: str
    class_name: str
    arguments: Callable[[], Mapping[str, Any]] = dict

    def __call__(self) -> Provider:
        from importlib import import_module

        made = getattr(import_module(self.module), self.class_name)(**self.arguments())
        return cast("Provider", made)


@frozen
class Register(Request[None]):
    """Serve an api by this provider from now on; the last writer wins."""

    api: str
    make: Callable[[], Provider]


@frozen
class Unregister(Request[bool]):
    """Stop serving an api; False when nobody served it."""

    api: str


class Clear(Request[None]):
    """Forget every provider."""

    __slots__ = ()


class ProviderRegistry(GenServer[None, Register | Unregister | Clear, None, None]):
    """Which provider speaks a wire format. Writing is serialised, reading is a look into a table."""

    # Client side: runs in the caller.

    @staticmethod
    def init_table() -> None:
        """Make the table, empty, owned by the caller. One that exists is kept as it is."""
        if not ProviderRegistry.initialized():
            Table.new(TABLE, access="public")

    @staticmethod
    def initialized() -> bool:
        """Whether the table exists."""
        return Table.whereis(TABLE) is not None

    @staticmethod
    async def register(api: str, provider: Provider | Callable[[], Provider]) -> None:
        """Serve `api` by `provider`, or by what a call without arguments makes when it is first used."""
        make = provider if not isinstance(provider, Provider) else _always(provider)
        await call(NAME, Register(canonical(api), make))

    @staticmethod
    async def unregister(api: str) -> bool:
        """Stop serving an api; False when nobody served it."""
        return await call(NAME, Unregister(canonical(api)))

    @staticmethod
    async def clear() -> None:
        """Forget every provider."""
        await call(NAME, Clear())

    @staticmethod
    def get(api: str) -> Provider | None:
        """The provider of an api; None when there is none."""
        rows = Table.whereis(TABLE)
        found = [] if rows is None else rows.lookup(canonical(api))
        return found[0][1].provider() if found else None

    @staticmethod
    def require(api: str) -> Provider:
        """The provider of an api.

        Raises:
            UnknownApi: There is none.
        """
        provider = ProviderRegistry.get(api)
        if provider is None:
            raise UnknownApi(api=api, known=ProviderRegistry.list())
        return provider

    @staticmethod
    def registered(api: str) -> bool:
        """Whether an api is served."""
        rows = Table.whereis(TABLE)
        return rows is not None and rows.member(canonical(api))

    @staticmethod
    def list() -> Sequence[str]:
        """The apis that are served, by name."""
        rows = Table.whereis(TABLE)
        return sorted(row[0] for row in rows.rows()) if rows is not None else []

    # Server side: runs in the process, one message at a time.

    async def init(self, arg: None) -> None:
        return None

    async def handle_call(self, message: Register | Unregister | Clear, caller: Caller, state: None) -> Reply[None]:
        rows = Table.whereis(TABLE)
        assert rows is not None
        match message:
            case Register(api, make):
                rows.insert((api, Entry(api, make)))
                return Reply(None, state)
            case Unregister(api):
                known = rows.member(api)
                rows.delete(api)
                return Reply(known, state)
            case Clear():
                rows.clear()
                return Reply(None, state)

    async def handle_cast(self, message: None, state: None) -> NoReply[None]:
        return NoReply(state)


def _always(provider: Provider) -> Callable[[], Provider]:
    return lambda: provider
