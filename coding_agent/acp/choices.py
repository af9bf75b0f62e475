"""Pure. What a person can choose for a session: modes of permission, model, thinking, as the protocol offers them."""

from collections.abc import Sequence
from typing import Any, Final

from coding_agent.permissions.policy import MODES
from coding_agent.rpc.models_json import levels_of
from lemon_ai import Model

MODE: Final = "mode"
MODEL: Final = "model"
THINKING: Final = "thinking"
COMPACTION: Final = "compaction"

MODE_NAMES: Final = {
    "ask": ("Ask", "Reads and searches; asks before everything else"),
    "edit": ("Edit", "Also changes files in the folder; asks before commands"),
    "full": ("Full", "Also runs commands without asking"),
    "plan": ("Plan", "Reads and searches, and nothing else"),
}
MODELS_SHOWN: Final = 200


def modes(current: str) -> dict[str, Any]:
    """The modes, and which one holds."""
    available = [{"id": mode, "name": MODE_NAMES[mode][0], "description": MODE_NAMES[mode][1]} for mode in MODES]
    return {"currentModeId": current, "availableModes": available}


def options(mode: str, model: Model, models: Sequence[Model], level: str) -> list[dict[str, Any]]:
    """Everything that can be chosen, with what is chosen."""
    named = {name_of(each): each for each in models}
    named.setdefault(name_of(model), model)
    shown = dict(list(named.items())[:MODELS_SHOWN])
    shown.setdefault(name_of(model), model)
    return [
        _select(
            MODE, "Permissions", "mode", mode, [(each, MODE_NAMES[each][0], MODE_NAMES[each][1]) for each in MODES]
        ),
        _select(
            MODEL,
            "Model",
            "model",
            name_of(model),
            [(name, each.name or each.id, each.provider.replace("_", "-")) for name, each in shown.items()],
        ),
        _select(THINKING, "Thinking", "thought_level", level, [(each, each, "") for each in _levels(model, level)]),
    ]


def compaction(enabled: bool) -> dict[str, Any]:
    """The switch of compactions that nobody asked for."""
    return {
        "id": COMPACTION,
        "name": "Compact by itself",
        "description": "Make a long conversation shorter when there is no room left",
        "type": "boolean",
        "currentValue": enabled,
    }


def name_of(model: Model) -> str:
    """A model as a value."""
    return f"{model.provider}/{model.id}"


def _levels(model: Model, current: str) -> list[str]:
    levels = levels_of(model)
    return levels if current in levels else [*levels, current]


def _select(
    name: str, title: str, category: str, current: str, values: Sequence[tuple[str, str, str]]
) -> dict[str, Any]:
    return {
        "id": name,
        "name": title,
        "category": category,
        "type": "select",
        "currentValue": current,
        "options": [
            {"value": value, "name": shown, **({"description": more} if more else {})} for value, shown, more in values
        ],
    }
