"""Pure. Calling a hook with no more arguments than it has places for.

Who only prunes messages writes `async def prune(messages)` and leaves the signal out, as one may where hooks are told
more than most need.
"""

import inspect
from collections.abc import Callable
from typing import Any, Final
from weakref import WeakKeyDictionary

_POSITIONAL: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_places: "WeakKeyDictionary[Callable[..., Any], int | None]" = WeakKeyDictionary()


def call_fitting(hook: Callable[..., Any], *args: Any) -> Any:
    """What `hook` returns, called with the first of `args`: as many as it takes."""
    return hook(*args[: _places_of(hook)]) if args else hook()


def _places_of(hook: Callable[..., Any]) -> int | None:
    """How many positional arguments a hook takes, looked up once for each; None when there is no telling."""
    try:
        return _places[hook]
    except KeyError:
        places = _places[hook] = _counted(hook)
        return places
    except TypeError:  # it cannot be remembered
        return _counted(hook)


def _counted(hook: Callable[..., Any]) -> int | None:
    """As its own signature says, or that of what it wraps when it would take anything itself."""
    for follow_wrapped in (False, True):
        try:
            parameters = inspect.signature(hook, follow_wrapped=follow_wrapped).parameters.values()
        except (TypeError, ValueError):
            return None
        if not any(parameter.kind is inspect.Parameter.VAR_POSITIONAL for parameter in parameters):
            return sum(parameter.kind in _POSITIONAL for parameter in parameters)
    return None
