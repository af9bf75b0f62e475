"""Value. What a check found, and where it looked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

from attrs import field, frozen

Level: TypeAlias = Literal["ok", "warn", "fail"]


@frozen
class Finding:
    """One thing that is as it should be, or is not.

    Attributes:
        area: What was looked at, such as `sandbox`.
        level: `ok`; `warn`, something works less well or not at all; `fail`, the program cannot do its work.
        said: What was found.
        mend: What to do about it; empty where there is nothing to do.
        facts: The same for programs.
    """

    area: str
    level: Level
    said: str
    mend: str = ""
    facts: Mapping[str, Any] = field(factory=dict)


@frozen
class Place:
    """What the checks look at.

    Attributes:
        environ: The environment.
        cwd: The folder the agent would work in.
    """

    environ: Mapping[str, str] = field(repr=False)
    cwd: Path


Check: TypeAlias = Callable[[Place], Iterable[Finding]]
