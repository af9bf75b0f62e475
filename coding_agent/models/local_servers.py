"""Edge. Servers on this machine that speak Chat Completions, known by what only they answer, not by their port.

Nothing but loopback is looked at, unless an address was configured; no key is sent, nothing is loaded or changed. All
addresses are asked at one time, each with 300 ms to connect and a second to answer, and what was found is good for a
minute. `LEMON_LOCAL_SERVERS=off` looks for none; a number of seconds lets them take longer on a slow machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import urlsplit

from attrs import evolve, field

from coding_agent.models.local_probes import ANSWER_S, Found, ServedModel, accepts, identify
from lemon_ai import Catalog, Model, UnknownModel, default_catalog, is_loopback
from lemon_otp import define, frozen, monotonic_s

VARIABLE: Final = "LEMON_LOCAL_SERVERS"
GOOD_FOR_S: Final = 60.0
DEFAULT_ADDRESSES: Final[tuple[str, ...]] = (
    "http://127.0.0.1:11434",
    "http://127.0.0.1:1234",
    "http://127.0.0.1:8080",
    "http://127.0.0.1:8000",
)
"""Where Ollama, LM Studio, llama.cpp and vLLM listen when nobody told them otherwise."""


@frozen
class LocalServer:
    """A server that answered.

    Attributes:
        kind: `ollama`, `lmstudio`, `llama_cpp`, `vllm`, or `local` for one that only lists models.
        base_url: Where it serves Chat Completions.
        version: What it calls itself; empty when it does not say.
        state: `ready`, or what it is busy with.
        models: What it serves, models that only embed left out.
    """

    kind: str
    base_url: str
    version: str
    state: str
    models: tuple[ServedModel, ...]

    def as_models(self, catalog: Catalog | None = None) -> tuple[Model, ...]:
        """The models as they are called, with the context they really get rather than the most they could have."""
        known = catalog or default_catalog()
        found = []
        for served in self.models:
            try:
                model = known.find(f"{self.kind}/{served.id}", base_url=self.base_url)
            except UnknownModel:
                continue
            found.append(
                evolve(
                    model,
                    context_window=served.context or model.context_window,
                    input=("text", "image") if served.vision else model.input,
                    reasoning=model.reasoning if served.thinking is None else served.thinking,
                )
            )
        return tuple(found)


@define(eq=False)
class LocalServers:
    """What was found last, and where to look.

    Attributes:
        environ: `LEMON_LOCAL_SERVERS`, `OLLAMA_HOST` and `OLLAMA_CONTEXT_LENGTH` are looked at.
        configured: Further addresses, of `models.json` and of settings.
        addresses: Where to look instead of the usual ports.
    """

    environ: Mapping[str, str] = field(repr=False)
    configured: tuple[str, ...] = ()
    addresses: tuple[str, ...] = DEFAULT_ADDRESSES
    _found: tuple[LocalServer, ...] | None = field(default=None, init=False)
    _found_at_s: float = field(default=0.0, init=False)

    def find(self, *, max_age_s: float = GOOD_FOR_S) -> tuple[LocalServer, ...]:
        """The servers that answer now, or did less than `max_age_s` ago.

        Blocks for a second or two at most; never raises.
        """
        if self._found is None or monotonic_s() - self._found_at_s > max_age_s:
            self._found = self._look()
            self._found_at_s = monotonic_s()
        return self._found

    @property
    def last(self) -> tuple[LocalServer, ...]:
        """What was found last; none before anybody has looked."""
        return self._found or ()

    def candidates(self) -> tuple[str, ...]:
        """Origins to ask, each once."""
        if self.environ.get(VARIABLE, "").lower() in ("off", "0", "no", "false"):
            return ()
        told = self.environ.get("OLLAMA_HOST", "")
        ollama = (_origin(told if "://" in told else f"http://{told}", port=11434),) if told else ()
        usual = (*ollama, *map(_origin, self.addresses))
        local = (address for address in usual if is_on_this_machine(address))
        return tuple(dict.fromkeys(address for address in (*local, *map(_origin, self.configured)) if address))

    def _patience_s(self) -> float:
        try:
            return min(max(float(self.environ.get(VARIABLE, "")), 0.1), 60.0)
        except ValueError:
            return ANSWER_S

    def _look(self) -> tuple[LocalServer, ...]:
        candidates = [origin for origin in self.candidates() if accepts(origin)]
        if not candidates:
            return ()
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(len(candidates), thread_name_prefix="local-server") as pool:
            patience_s = self._patience_s()
            found = pool.map(lambda origin: identify(origin, self.environ, answer_s=patience_s), candidates)
            return tuple(
                _server(origin, answer) for origin, answer in zip(candidates, found, strict=True) if answer is not None
            )


def is_on_this_machine(url: str | None) -> bool:
    """Is this the address of a server on this machine?"""
    return url is not None and is_loopback(url)


def configured_addresses(catalog: Catalog, *more: str | None) -> tuple[str, ...]:
    """Addresses on this machine that a person's `models.json` names, and those given."""
    named = (override.base_url for override in catalog.overrides.values())
    return tuple(url for url in (*named, *more) if url and is_on_this_machine(url))


def first_model(servers: Iterable[LocalServer], catalog: Catalog | None = None) -> Model | None:
    """The model to answer when nobody named one: one that is loaded, else the first, of the first server with any."""
    for server in servers:
        loaded = {served.id for served in server.models if served.loaded}
        models = server.as_models(catalog)
        if models:
            return next((model for model in models if model.id in loaded), models[0])
    return None


def _server(origin: str, found: Found) -> LocalServer:
    return LocalServer(found.kind, f"{origin}/v1", found.version, found.state, found.models)


def _origin(url: str, *, port: int | None = None) -> str:
    try:
        parts = urlsplit(url)
        host, at = parts.hostname, parts.port or port
    except ValueError:
        return ""
    if parts.scheme not in ("http", "https") or not host:
        return ""
    host = "127.0.0.1" if host in ("localhost", "0.0.0.0") else f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{host}{f':{at}' if at else ''}"
