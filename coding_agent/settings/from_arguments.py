"""Pure. What the command line says, in the names of a settings file."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from coding_agent.settings.reading import read_settings
from coding_agent.settings.schema import EXTRA_TOOLS
from coding_agent.settings.values import Settings

if TYPE_CHECKING:
    from coding_agent.arguments import Arguments


def settings_of(arguments: "Arguments", environ: Mapping[str, str]) -> Settings:
    """The settings of a start with this command line. Asked again, it reads again: after a person has said yes.

    Raises:
        BadUsage: As `read_settings`.
    """
    return read_settings(
        environ,
        cwd=arguments.cwd,
        session_dir=arguments.session_dir,
        model=arguments.model,
        base_url=arguments.base_url,
        thinking_level=arguments.thinking,
        flags=flags_of(arguments),
        choices=choices_of(arguments),
        trust_once=arguments.trust,
    )


def flags_of(arguments: "Arguments") -> dict[str, Any]:
    """Settings that were given as flags."""
    named = {
        "permissions.mode": arguments.mode,
        "permissions.allow": arguments.allow or None,
        "permissions.ask": arguments.ask or None,
        "permissions.deny": arguments.deny or None,
        "fallbackModels": arguments.fallback or None,
        "sandbox": arguments.sandbox,
        "offline": arguments.offline or None,
        "theme": arguments.theme,
        "extraTools": tuple(name for name in arguments.tools or () if name in EXTRA_TOOLS) or None,
        "checkpoints": None if arguments.checkpoints else False,
        "contextFiles": None if arguments.context_files else False,
    }
    return {key: value for key, value in named.items() if value is not None}


def choices_of(arguments: "Arguments") -> dict[str, Any]:
    """Fields of `ResourceChoices` that were given as flags; paths start where the program was started."""

    def absolute(paths: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(os.path.abspath(os.path.expanduser(path)) for path in paths)

    given: dict[str, Any] = {
        "skills": absolute(arguments.skills),
        "templates": absolute(arguments.templates),
        "extensions": absolute(arguments.extensions),
    }
    for name in ("use_skills", "use_templates", "use_extensions"):
        if not getattr(arguments, name):
            given[name] = False
    for name in ("system_prompt", "append_prompt"):
        if getattr(arguments, name) is not None:
            given[name] = getattr(arguments, name)
    return given
