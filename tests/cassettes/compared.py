"""Field by field: does the outcome say what is wanted? What a recording does not tell is not asked."""

from collections.abc import Mapping
from typing import Any

Json = Mapping[str, Any]


def differences(got: Json, want: Json) -> list[str]:
    """The names of the fields that differ."""
    wrong = [
        name
        for name in ("text", "thinking", "stop_reason", "response_id", "redacted_thinking_blocks")
        if name in want and got[name] != want[name]
    ]
    wrong += [f"usage.{name}" for name, count in want["usage"].items() if got["usage"][name] != count]
    return wrong + _calls(got["tool_calls"], want["tool_calls"]) + _error(got["error"], want["error"])


def _calls(got: list[Json], want: list[Json]) -> list[str]:
    if len(got) != len(want):
        return ["tool_calls"]
    return [
        f"tool_calls[{place}].{name}"
        for place, (ours, theirs) in enumerate(zip(got, want, strict=True))
        for name in theirs
        if not _same(ours, theirs, name)
    ]


def _same(ours: Json, theirs: Json, name: str) -> bool:
    """Equal. Of a call that was cut, an official client may have read less than what could be read of it."""
    if ours.get(name) == theirs[name]:
        return True
    return name == "arguments" and ours.get("invalid", False) and _begins(ours["read_so_far"], theirs[name])


def _begins(whole: Any, part: Any) -> bool:
    """Whether `part` is `whole` cut off somewhere."""
    if isinstance(whole, dict) and isinstance(part, dict):
        return _begins(list(whole.items()), list(part.items()))
    if isinstance(whole, list | tuple) and isinstance(part, list | tuple):
        shared = list(whole[: len(part)])
        return not part or (
            shared[:-1] == list(part[:-1]) and len(whole) >= len(part) and _begins(shared[-1], part[-1])
        )
    if isinstance(whole, str) and isinstance(part, str):
        return whole.startswith(part)
    return bool(whole == part)


def _error(got: Json | None, want: Json | None) -> list[str]:
    if got is None or want is None:
        return [] if got is want else ["error"]
    wrong = [name for name, value in want.items() if name != "message" and got.get(name) != value]
    if not _tells(str(got.get("message")), str(want.get("message", ""))):
        wrong.append("message")
    return [f"error.{name}" for name in wrong]


def _tells(ours: str, theirs: str) -> bool:
    """Whether our sentence holds theirs, but for what looks like a key in it."""
    shown = ours.split("[redacted]")
    return theirs in ours or (len(shown) > 1 and all(part in theirs for part in shown))
