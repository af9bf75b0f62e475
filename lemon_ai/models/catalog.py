"""Edge. Which models there are: one JSON file a provider beside this module, each read when it is first needed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from os.path import dirname, exists, join
from typing import Any, Final

from attrs import evolve, field

from lemon_ai.environment import canonical
from lemon_ai.errors import UnknownModel
from lemon_ai.models.model import Model
from lemon_ai.models.overrides import ProviderOverride, apply, read_overrides
from lemon_ai.models.schema import PROVIDERS, read_catalog
from lemon_otp import OtpError, define, get_env, put_env

FOLDER: Final = dirname(__file__)
LOCAL_BASE_URLS: Final[Mapping[str, str]] = {
    "ollama": "http://127.0.0.1:11434/v1",
    "llama_cpp": "http://127.0.0.1:8080/v1",
    "lmstudio": "http://127.0.0.1:1234/v1",
    "vllm": "http://127.0.0.1:8000/v1",
    "local": "http://127.0.0.1:8080/v1",
}
"""Where a server on this machine listens by default."""

ALIASES: Final[Mapping[str, str]] = {
    "x_ai": "xai",
    "bedrock": "amazon_bedrock",
    "azure": "azure_openai_responses",
    "vertex": "google_vertex",
    "gemini": "google",
    "moonshot": "kimi",
    "moonshotai": "kimi",
    "copilot": "github_copilot",
    "llamacpp": "llama_cpp",
    "llama.cpp": "llama_cpp",
    "lm_studio": "lmstudio",
}
"""Other names people use for a provider."""

_CATALOG: Final = "catalog"
_LOCAL_CONTEXT: Final = 32_768
_LOCAL_MAX_TOKENS: Final = 4_096


def _read_file(provider: str) -> dict[str, Model]:
    path = join(FOLDER, f"{provider}.json")
    if not exists(path):
        return {}
    with open(path, encoding="utf-8") as file:
        return read_catalog(file.read(), f"{provider}.json")


@define(eq=False)
class Catalog:
    """The models of every provider.

    Attributes:
        overrides: What a user changed, by provider.
        read: Reads one provider's models.
    """

    overrides: Mapping[str, ProviderOverride] = field(factory=dict)
    read: Callable[[str], dict[str, Model]] = _read_file
    _loaded: dict[str, dict[str, Model]] = field(factory=dict, init=False, repr=False)

    def with_overrides(
        self, document: Mapping[str, Any], *, file: str = "models.json", apis: Collection[str] = ()
    ) -> Catalog:
        """This catalogue with a user's `models.json` on top.

        Args:
            document: What the file says.
            file: Where it stands, for what is said of it.
            apis: Wire formats it may name beside those of this package.

        Raises:
            BadCatalog: The document is of the wrong shape; says where.
        """
        return Catalog({**self.overrides, **read_overrides(document, file, apis)}, self.read)

    def providers(self) -> tuple[str, ...]:
        """Every provider, in the order in which a bare id is looked for; the user's own come last."""
        return (*PROVIDERS, *(name for name in self.overrides if name not in PROVIDERS))

    def models(self, provider: str | None = None) -> tuple[Model, ...]:
        """The models of one provider, or of all; none for an unknown one."""
        names = self.providers() if provider is None else (self._name(provider),)
        return tuple(model for name in names for model in self._of(name).values())

    def ids(self, provider: str) -> tuple[str, ...]:
        """The names one provider's models answer to."""
        return tuple(self._of(self._name(provider)))

    def get(self, provider: str, model_id: str) -> Model | None:
        """A provider's model of this name; None when it is not listed."""
        return self._of(self._name(provider)).get(model_id)

    def find_by_id(self, model_id: str) -> Model | None:
        """The first provider's model of this name."""
        for provider in self.providers():
            found = self._of(provider).get(model_id)
            if found is not None:
                return found
        return None

    def find(self, name: str, *, base_url: str | None = None) -> Model:
        """The model a person means by `provider/model`, `provider:model`, or by a model's name alone.

        With a `base_url` the model is served there; one that is not listed is taken for a model of a server that
        speaks Chat Completions. So is any model of a server on this machine: `ollama/...`, `llama_cpp/...`,
        `lmstudio/...`, `vllm/...`, `local/...`.

        Raises:
            UnknownModel: Nothing fits; names what is close.
        """
        provider, slash, model_id = self._parted(name)
        known = self._name(provider)
        if slash and model_id and known in self.providers():
            listed = self.get(known, model_id)
            if listed is not None:
                return _served_at(listed, base_url)
            made = self._generic(known, model_id, base_url)
            if made is not None:
                return made
        elif (found := self.find_by_id(name)) is not None:
            return _served_at(found, base_url)
        elif base_url and name:
            custom = canonical(provider) if slash and model_id else "local"
            return _server_model(custom, model_id if slash and model_id else name, base_url)
        raise UnknownModel(name=name, close=self._close_to(name))

    def _parted(self, name: str) -> tuple[str, str, str]:
        """Provider, separator and model of a name; a colon parts them only where a known provider stands before it."""
        head, colon, rest = name.partition(":")
        if rest and "/" not in head and self._name(head) in self.providers() and self.find_by_id(name) is None:
            return head, colon, rest
        return name.partition("/")

    def _of(self, provider: str) -> dict[str, Model]:
        if provider not in self._loaded:
            models = self.read(provider)
            override = self.overrides.get(provider)
            self._loaded[provider] = apply(models, override) if override is not None else models
        return self._loaded[provider]

    def _name(self, provider: str) -> str:
        name = canonical(provider)
        return ALIASES.get(name, name)

    def _generic(self, provider: str, model_id: str, base_url: str | None) -> Model | None:
        if provider == "replay":
            return Model(id=model_id, api="replay", provider="replay", reasoning=True, input=("text", "image"))
        if provider == "scripted":
            is_file = model_id.endswith((".json", ".jsonl"))
            return evolve(self._of("scripted")["script"], id=model_id, name=model_id) if is_file else None
        if provider in LOCAL_BASE_URLS:
            return _server_model(provider, model_id, base_url or LOCAL_BASE_URLS[provider])
        return _server_model(provider, model_id, base_url) if base_url else None

    def _close_to(self, name: str) -> tuple[str, ...]:
        from difflib import get_close_matches

        provider, _, model_id = name.partition("/")
        known = self._name(provider)
        if model_id and known in self.providers():
            close = get_close_matches(model_id, self._of(known), n=5, cutoff=0.4)
            return tuple(f"{known}/{match}" for match in close)
        wanted = name.rpartition("/")[2]
        names: dict[str, str] = {}
        for known in self.providers():
            for key in self._of(known):
                names.setdefault(key, f"{known}/{key}")
        return tuple(names[match] for match in get_close_matches(wanted, names, n=5, cutoff=0.4))


def _served_at(model: Model, base_url: str | None) -> Model:
    """A listed model, at another address if one is given; there, only Chat Completions can be counted on."""
    if not base_url:
        return model
    api = "openai_completions" if model.api == "openai_responses" else model.api
    return evolve(model, base_url=base_url, api=api)


def _server_model(provider: str, model_id: str, base_url: str) -> Model:
    return Model(
        id=model_id,
        api="openai_completions",
        provider=provider,
        base_url=base_url,
        context_window=_LOCAL_CONTEXT,
        max_tokens=_LOCAL_MAX_TOKENS,
    )


_default: Catalog = Catalog()


def default_catalog() -> Catalog:
    """The catalogue of this package, without anybody's changes. It is read-only, so everybody shares it."""
    return _default


def current_catalog() -> Catalog:
    """The catalogue that this runtime was told to use; the package's own where it was told nothing."""
    try:
        told = get_env("lemon_ai", _CATALOG)
    except OtpError:  # there is no runtime: somebody only wants to know a model
        return _default
    return told if isinstance(told, Catalog) else _default


def use_catalog(catalog: Catalog) -> None:
    """Have every name of a model in this runtime be looked up in `catalog`: one with a user's own models, say.

    An application that is loaded forgets what it was told before: call this when it runs.
    """
    put_env("lemon_ai", _CATALOG, catalog)


def find_model(name: str, *, base_url: str | None = None) -> Model:
    """The model a person means by `provider/model`; see `Catalog.find`.

    Raises:
        UnknownModel: Nothing fits; names what is close.
    """
    return current_catalog().find(name, base_url=base_url)


def get_model(provider: str, model_id: str) -> Model | None:
    """A provider's model of this name; None when it is not listed."""
    return current_catalog().get(provider, model_id)


def models(provider: str | None = None) -> tuple[Model, ...]:
    """The listed models of one provider, or of all."""
    return current_catalog().models(provider)
