"""Pure. What a user's `models.json` changes: providers re-routed, models patched, models added.

The file is the one people already have: camel case, everything optional but a model's id.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from attrs import evolve, fields

from lemon_ai.environment import canonical
from lemon_ai.errors import BadCatalog
from lemon_ai.models.model import Compat, Model, ModelCost
from lemon_ai.models.schema import APIS, INPUTS, read_compat
from lemon_ai.patterns import Pattern
from lemon_otp import frozen

_DEFAULT_CONTEXT: Final = 128_000
_DEFAULT_MAX_TOKENS: Final = 16_384
_HUMP: Final = Pattern(r"(?<=[a-z0-9])(?=[A-Z])")


@frozen
class ProviderOverride:
    """What a user says about one provider.

    Attributes:
        api_key: As written: a literal, the name of a variable, or `!command`. Resolving it is the caller's work.
    """

    base_url: str | None = None
    api: str | None = None
    api_key: str | None = None
    headers: Mapping[str, str] | None = None
    compat: Compat | None = None
    models: tuple[Model, ...] = ()
    patches: Mapping[str, Mapping[str, Any]] | None = None


def read_overrides(document: Any, file: str = "models.json", apis: Collection[str] = ()) -> dict[str, ProviderOverride]:
    """The overrides by provider, under the names this package uses.

    Args:
        document: What the file says.
        file: Where it stands.
        apis: Wire formats it may name beside ours.

    Raises:
        BadCatalog: Something is of the wrong kind; says where.
    """
    providers = _mapping(document, file, "").get("providers", {})
    known = APIS | {canonical(api) for api in apis}
    return {
        canonical(name): _provider(_mapping(entry, file, f"providers.{name}"), canonical(name), file, known)
        for name, entry in _mapping(providers, file, "providers").items()
    }


def apply(models: Mapping[str, Model], override: ProviderOverride) -> dict[str, Model]:
    """A provider's models as the user wants them; an added model with the id of a built-in one replaces it."""
    changed = {key: _rerouted(model, override) for key, model in models.items()}
    for key, patch in (override.patches or {}).items():
        if key in changed:
            changed[key] = _patched(changed[key], patch)
    return changed | {model.id: model for model in override.models}


def _provider(entry: Mapping[str, Any], name: str, file: str, apis: Collection[str]) -> ProviderOverride:
    path = f"providers.{name}"
    compat = read_compat(_snake(entry.get("compat")), file, f"{path}.compat")
    base = ProviderOverride(
        base_url=_text(entry, "baseUrl", file, path),
        api=_api(entry, file, path, apis),
        api_key=_text(entry, "apiKey", file, path),
        headers=_mapping(entry.get("headers", {}), file, f"{path}.headers"),
        compat=compat,
        patches=_mapping(entry.get("modelOverrides", {}), file, f"{path}.modelOverrides"),
    )
    listed = entry.get("models", [])
    if not isinstance(listed, list):
        raise BadCatalog(file=file, path=f"{path}.models", problem="must be a list")
    models = tuple(_model(item, name, base, file, f"{path}.models[{n}]", apis) for n, item in enumerate(listed))
    return evolve(base, models=models)


def _model(item: Any, provider: str, base: ProviderOverride, file: str, path: str, apis: Collection[str]) -> Model:
    entry = _mapping(item, file, path)
    model_id = _text(entry, "id", file, path)
    if not model_id:
        raise BadCatalog(file=file, path=f"{path}.id", problem="is missing")
    model = Model(
        id=model_id,
        name=_text(entry, "name", file, path) or model_id,
        api=_api(entry, file, path, apis) or base.api or "openai_completions",
        provider=provider,
        base_url=_text(entry, "baseUrl", file, path) or base.base_url or "",
        context_window=_DEFAULT_CONTEXT,
        max_tokens=_DEFAULT_MAX_TOKENS,
        headers={**(base.headers or {}), **_mapping(entry.get("headers", {}), file, f"{path}.headers")},
        compat=_merged(base.compat, read_compat(_snake(entry.get("compat")), file, f"{path}.compat")),
    )
    return _patched(model, entry)


def _rerouted(model: Model, override: ProviderOverride) -> Model:
    return evolve(
        model,
        base_url=override.base_url or model.base_url,
        api=override.api or model.api,
        headers={**model.headers, **(override.headers or {})},
        compat=_merged(model.compat, override.compat),
    )


def _patched(model: Model, patch: Mapping[str, Any]) -> Model:
    """`model` with those fields of `patch` that are of the right kind; anything else is left as it is."""
    changes: dict[str, Any] = {}
    if isinstance(patch.get("name"), str):
        changes["name"] = patch["name"]
    if isinstance(patch.get("reasoning"), bool):
        changes["reasoning"] = patch["reasoning"]
    if isinstance(patch.get("input"), list) and set(patch["input"]) <= INPUTS:
        changes["input"] = tuple(patch["input"])
    for theirs, ours in (("contextWindow", "context_window"), ("maxTokens", "max_tokens")):
        if isinstance(patch.get(theirs), int) and patch[theirs] >= 0:
            changes[ours] = patch[theirs]
    cost = patch.get("cost")
    if isinstance(cost, Mapping):
        changes["cost"] = _cost(model.cost, cost)
    return evolve(model, **changes)


def _cost(known: ModelCost, told: Mapping[str, Any]) -> ModelCost:
    names = {"input": "input", "output": "output", "cacheRead": "cache_read", "cacheWrite": "cache_write"}
    prices = {ours: told[theirs] for theirs, ours in names.items() if isinstance(told.get(theirs), (int, float))}
    return evolve(known, **{name: max(0.0, float(price)) for name, price in prices.items()})


def _merged(under: Compat | None, over: Compat | None) -> Compat | None:
    if under is None or over is None:
        return over or under
    given = {attribute.name: getattr(over, attribute.name) for attribute in fields(Compat)}
    return evolve(under, **{name: value for name, value in given.items() if value is not None})


def _snake(value: Any) -> Any:
    """The keys of an object in the spelling of this package."""
    if not isinstance(value, Mapping):
        return value
    return {_HUMP.sub("_", key).lower(): item for key, item in value.items()}


def _mapping(value: Any, file: str, path: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise BadCatalog(file=file, path=path, problem="must be an object")
    return value


def _text(entry: Mapping[str, Any], name: str, file: str, path: str) -> str | None:
    value = entry.get(name)
    if value is not None and not isinstance(value, str):
        raise BadCatalog(file=file, path=f"{path}.{name}", problem="must be a string")
    return value


def _api(entry: Mapping[str, Any], file: str, path: str, apis: Collection[str]) -> str | None:
    told = _text(entry, "api", file, path)
    if told is None:
        return None
    api = canonical(told)
    if api not in apis:
        problem = f"is {told!r}, which is none of {', '.join(sorted(apis))}"
        raise BadCatalog(file=file, path=f"{path}.api", problem=problem)
    return api
