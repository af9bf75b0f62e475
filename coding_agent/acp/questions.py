"""Pure. The answers to a question in the protocol's kinds; an answer's id is its place."""

from collections.abc import Sequence
from typing import Final

from coding_agent.hosting.dialogs import DENY

YES: Final = "Yes"
NO: Final = "No"


def permission_options(options: Sequence[str]) -> list[dict[str, str]]:
    """Once, always where that can be had, and no."""
    kinds = ["allow_once", *["allow_always"] * (len(options) - 2), "reject_once"]
    return [
        {"optionId": str(number), "name": name, "kind": "reject_once" if name == DENY else kinds[number]}
        for number, name in enumerate(options)
    ]


def plain_options(options: Sequence[str]) -> list[dict[str, str]]:
    """What an extension lets a person choose from; the protocol knows no kinds but those of permissions."""
    return [
        {"optionId": str(number), "name": name, "kind": "reject_once" if name == NO else "allow_once"}
        for number, name in enumerate(options)
    ]
