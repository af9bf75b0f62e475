"""Pure. Models as the protocol shows them, and which there are to choose from."""

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final

from coding_agent.models.user_models import UserModels
from lemon_ai import Model, model_to_wire, redact

LEVELS: Final = ("off", "minimal", "low", "medium", "high")
EXTRA_LEVELS: Final = ("xhigh", "max")
ALL_LEVELS: Final = (*LEVELS, *EXTRA_LEVELS)


def model_to_json(model: Model) -> dict[str, Any]:
    """A model as an object; providers and wire formats are spelled with hyphens, an address is without its secrets."""
    return {**model_to_wire(model), "baseUrl": redact(model.base_url)}


def available(known: UserModels, current: Model) -> list[Model]:
    """The models a request could be made to now, with the one that answers at the moment.

    Of servers on this machine those count that were found last: `known.servers.find` looks for them.
    """
    found: dict[tuple[str, str], Model] = {(current.provider, current.id): current}
    found |= {(model.provider, model.id): model for model in known.served()}
    for provider in known.catalog.providers():
        if provider == "scripted" or known.credentials.has(provider):
            for model in known.catalog.models(provider):
                found.setdefault((model.provider, model.id), model)
    return list(found.values())


def scoped(models: Iterable[Model], patterns: Sequence[str]) -> list[Model]:
    """Those that one of the patterns names: `provider/id` or an id alone, with `*` and `?`; all without patterns."""
    if not patterns:
        return list(models)
    wanted = [pattern.split(":", 1)[0].lower() for pattern in patterns]
    return [
        model
        for model in models
        if any(
            fnmatchcase(name.lower(), pattern)
            for name in (f"{model.provider}/{model.id}", model.id)
            for pattern in wanted
        )
    ]


def nearest_level(level: str, model: Model) -> str:
    """The level itself, or the nearest one below it that makes a difference for a model."""
    place = ALL_LEVELS.index(level) if level in ALL_LEVELS else 0
    levels = levels_of(model)
    return next(one for one in reversed(ALL_LEVELS[: place + 1]) if one in levels)


def levels_of(model: Model) -> list[str]:
    """The thinking levels that make a difference for a model."""
    if not model.reasoning:
        return ["off"]
    efforts = model.reasoning_efforts
    return [*LEVELS, *(level for level in EXTRA_LEVELS if efforts is not None and level in efforts)]
