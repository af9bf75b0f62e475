"""Which model answers: the one asked for, else one that a key or a local server gives, else the scripted one."""

import os
from collections.abc import Iterable, Sequence
from typing import Final

from attrs import evolve, frozen

from coding_agent.credentials import has_key
from coding_agent.errors import BadUsage
from coding_agent.models.local_servers import LocalServers, configured_addresses, first_model
from coding_agent.settings import Settings
from lemon_ai import Catalog, Model, UnknownModel, canonical, default_catalog, is_loopback, redact

PREFERRED: Final[Sequence[tuple[str, str]]] = (
    ("anthropic", "anthropic/claude-sonnet-4-5"),
    ("openai", "openai/gpt-5.1"),
    ("google", "google/gemini-2.5-pro"),
    ("openrouter", "openrouter/anthropic/claude-sonnet-4.5"),
    ("mistral", "mistral/mistral-large-latest"),
    ("groq", "groq/openai/gpt-oss-120b"),
    ("xai", "xai/grok-4"),
    ("deepseek", "deepseek/deepseek-chat"),
    ("cerebras", "cerebras/gpt-oss-120b"),
    ("openai_codex", "openai_codex/gpt-5.1"),
    ("google_gemini_cli", "google_gemini_cli/gemini-2.5-pro"),
)
"""The model each provider's key stands for when nobody named one, in the order the keys are looked for."""

SCRIPTED: Final = "scripted/demo"

NO_MODEL_NOTICE: Final = (
    "no key and no local server found, so the built-in scripted model answers; for a real one set a key such as "
    "ANTHROPIC_API_KEY or OPENAI_API_KEY, or give --model with --base-url"
)


OFFLINE_NOTICE: Final = (
    "offline, and no local server found, so the built-in scripted model answers; start one such as Ollama or llama.cpp"
)


@frozen
class ModelChoice:
    """The model to start with.

    Attributes:
        asked_for: The person named it, so it answers even where a stored session names another.
        notice: A line to tell the person, empty when there is nothing to tell.
        fallback: Who answers when it cannot, in this order.
    """

    model: Model
    asked_for: bool
    notice: str = ""
    fallback: tuple[Model, ...] = ()


def choose_model(settings: Settings, catalog: Catalog | None = None) -> ModelChoice:
    """The model these settings ask for, or the best one there is.

    Args:
        settings: Of this start.
        catalog: Where models are looked up; None is the package's own.

    Raises:
        BadUsage: The model asked for is not known, or one that is to stand in for it; the text names close ones.
    """
    known = catalog or default_catalog()
    fallback = tuple(_find(known, _named(name)) for name in settings.fallback_models)
    choice = _first_choice(settings, known)
    if settings.offline and is_elsewhere(choice.model):
        raise BadUsage(
            f"{choice.model.provider}/{choice.model.id} is on another machine, and this start is offline; "
            "name a model of this machine, such as ollama/NAME or one with --base-url http://127.0.0.1:PORT/v1"
        )
    return evolve(choice, fallback=fallback) if fallback else choice


def _first_choice(settings: Settings, known: Catalog) -> ModelChoice:
    if settings.model is not None:
        return ModelChoice(_find(known, _named(settings.model), settings.base_url), asked_for=True)
    if settings.base_url is not None:
        _check_here(settings, settings.base_url)
        return ModelChoice(_served_at(known, settings.base_url), asked_for=True)
    notice = ""
    if settings.default_model is not None:
        try:
            named = _find(known, _named(settings.default_model), settings.default_base_url)
            return ModelChoice(named, asked_for=False)
        except BadUsage as error:  # another program's file may name what only that program knows
            notice = f"the model of your settings is not known: {error}; "
    elif settings.default_base_url is not None:
        _check_here(settings, settings.default_base_url)
        return ModelChoice(_served_at(known, settings.default_base_url), asked_for=False)
    for provider, name in () if settings.offline else PREFERRED:
        if has_key(provider):
            return ModelChoice(_find(known, name), asked_for=False, notice=notice.removesuffix("; "))
    if (served := first_model(LocalServers(os.environ, configured_addresses(known)).find(), known)) is not None:
        return ModelChoice(
            served, asked_for=False, notice=f"{notice}using the local server at {redact(served.base_url)}"
        )
    nobody = OFFLINE_NOTICE if settings.offline else NO_MODEL_NOTICE
    return ModelChoice(_find(known, SCRIPTED), asked_for=False, notice=notice + nobody)


def is_elsewhere(model: Model) -> bool:
    """Does a call to this model leave the machine? What an extension's own provider does is not known here."""
    if model.api in ("scripted", "replay") or model.api.startswith("extension_"):
        return False
    return not is_loopback(model.base_url)


def _check_here(settings: Settings, base_url: str) -> None:
    if settings.offline and not is_loopback(base_url):
        raise BadUsage(f"{redact(base_url)} is on another machine, and this start is offline")


def _named(default_model: str) -> str:
    """The model that a name stands for; a provider alone is the one its key would stand for."""
    return dict(PREFERRED).get(canonical(default_model), default_model)


def _find(catalog: Catalog, name: str, base_url: str | None = None) -> Model:
    try:
        return catalog.find(name, base_url=base_url)
    except UnknownModel as error:
        raise BadUsage(str(error)) from error


def _served_at(catalog: Catalog, base_url: str, provider: str = "local") -> Model:
    """The first model a server offers."""
    names = _model_ids(base_url)
    for name in names:
        return _find(catalog, f"{provider}/{name}", base_url)
    raise BadUsage(f"the server at {base_url} offers no model; name one with --model {provider}/NAME")


def _model_ids(base_url: str) -> Iterable[str]:
    import httpx

    try:
        answer = httpx.get(base_url.rstrip("/") + "/models", timeout=5.0, trust_env=False)
        answer.raise_for_status()
        return [entry["id"] for entry in answer.json()["data"]]
    except httpx.ConnectError as error:
        said = f"nothing answers at {base_url} ({error}); start the server, or give another address with --base-url"
        raise BadUsage(said) from error
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, LookupError, TypeError) as error:
        raise BadUsage(f"the server at {base_url} does not list its models ({error}); name one with --model") from error
