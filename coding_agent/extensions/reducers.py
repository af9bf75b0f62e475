"""Pure. What several handlers' answers come to, for each point where they have a say.

A rule takes what stands so far and one answer, and gives what stands then, and whether that is the last word. An answer
is a mapping; what it cannot mean is a `BadAnswer`. Handlers are asked in the order they were registered in, each told
what stands after those before it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from attrs import evolve, fields

from coding_agent.extensions import hooks
from coding_agent.messages import CustomMessage
from lemon_ai import StreamOptions
from lemon_otp import wall_ms

Standing: TypeAlias = dict[str, Any]
"""What the answers come to so far; empty at first."""
Rule: TypeAlias = Callable[[Standing, Mapping[str, Any]], tuple[Standing, bool]]


class BadAnswer(ValueError):
    """A handler answered what cannot be meant; the text says what."""


def answered(answer: Any) -> Mapping[str, Any]:
    """An answer as a mapping.

    Raises:
        BadAnswer: It is none.
    """
    if answer is None:
        return {}
    if not isinstance(answer, Mapping):
        raise BadAnswer(f"a handler answers None or a mapping, not {type(answer).__name__}")
    return answer


def before_agent_start(so_far: Standing, answer: Mapping[str, Any]) -> tuple[Standing, bool]:
    """Messages come together; each system prompt is made from the one before."""
    merged = dict(so_far)
    if (messages := answer.get("messages")) is not None:
        merged["messages"] = [*so_far.get("messages", ()), *map(_custom_message, _messages(messages))]
    if (prompt := answer.get("system_prompt")) is not None:
        merged["system_prompt"] = _text(prompt, "system_prompt")
    return merged, False


def context(so_far: Standing, answer: Mapping[str, Any]) -> tuple[Standing, bool]:
    """Each list of messages is made from the one before."""
    if (messages := answer.get("messages")) is None:
        return so_far, False
    found = _messages(messages)
    if not all(hasattr(message, "role") for message in found):
        raise BadAnswer("messages must be messages, with a role")
    return {"messages": found}, False


def provider_request(so_far: Standing, answer: Mapping[str, Any]) -> tuple[Standing, bool]:
    """Scalars replace; headers and metadata go name by name, None takes one away, None for all of them takes all."""
    patch = answer.get("options")
    if patch is None:
        return so_far, False
    if not isinstance(patch, Mapping):
        raise BadAnswer("options must be a mapping")
    options: StreamOptions = so_far["options"]
    names = {attribute.name for attribute in fields(StreamOptions)}
    unknown = sorted(set(patch) - names)
    if unknown:
        raise BadAnswer(f"there is no option {unknown[0]!r}")
    changes: dict[str, Any] = {
        name: _patched(getattr(options, name), value) if name in _BY_NAME else value for name, value in patch.items()
    }
    return {"options": evolve(options, **changes)}, False


_BY_NAME: Final = ("headers", "metadata")


def _patched(before: Mapping[str, Any], patch: Any) -> Mapping[str, Any]:
    if patch is None:
        return {}
    if not isinstance(patch, Mapping):
        raise BadAnswer("headers and metadata must be mappings, or None")
    merged = dict(before)
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = value
    return merged


def provider_payload(so_far: Standing, answer: Mapping[str, Any]) -> tuple[Standing, bool]:
    """Each payload is made from the one before."""
    payload = answer.get("payload")
    if payload is None:
        return so_far, False
    if not isinstance(payload, dict):
        raise BadAnswer("payload must be a dict")
    return {"payload": payload}, False


def tool_call(so_far: Standing, answer: Mapping[str, Any]) -> tuple[Standing, bool]:
    """The first that blocks has the last word."""
    if answer.get("block") in (None, False):
        return so_far, False
    reason = answer.get("reason")
    return {"block": True, "reason": None if reason is None else _text(reason, "reason")}, True


def tool_result(so_far: Standing, answer: Mapping[str, Any]) -> tuple[Standing, bool]:
    """Field by field, each from the one before."""
    merged = dict(so_far)
    for name in ("content", "details", "is_error", "terminate"):
        if name in answer:
            merged[name] = tuple(_messages(answer[name])) if name == "content" else answer[name]
    return merged, False


def cancellable(so_far: Standing, answer: Mapping[str, Any]) -> tuple[Standing, bool]:
    """The first that cancels has the last word; else the last of each text wins."""
    if answer.get("cancel"):
        return {"cancel": True}, True
    merged = dict(so_far)
    for name in ("summary", "label"):
        if answer.get(name) is not None:
            merged[name] = _text(answer[name], name)
    return merged, False


def typed_input(so_far: Standing, answer: Mapping[str, Any]) -> tuple[Standing, bool]:
    """The first that takes it over has the last word; texts are made one from the other."""
    if answer.get("handled"):
        return {**so_far, "handled": True}, True
    merged = dict(so_far)
    if answer.get("text") is not None:
        merged["text"] = _text(answer["text"], "text")
    if answer.get("images") is not None:
        merged["images"] = tuple(_messages(answer["images"]))
    return merged, False


def first_wins(so_far: Standing, answer: Mapping[str, Any]) -> tuple[Standing, bool]:
    """The first that answers anything has the last word."""
    return (dict(answer), True) if answer else (so_far, False)


def paths(so_far: Standing, answer: Mapping[str, Any]) -> tuple[Standing, bool]:
    """Paths come together."""
    merged = dict(so_far)
    for name in ("skill_paths", "prompt_paths"):
        if name in answer:
            merged[name] = [*so_far.get(name, ()), *(_text(item, name) for item in _messages(answer[name]))]
    return merged, False


def _custom_message(value: Any) -> CustomMessage:
    if isinstance(value, CustomMessage):
        return value
    if not isinstance(value, Mapping):
        raise BadAnswer("a message must be a mapping with custom_type and content")
    kind, content = _text(value.get("custom_type"), "custom_type"), _text(value.get("content"), "content")
    return CustomMessage(kind, content, bool(value.get("display", True)), value.get("details"), wall_ms())


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise BadAnswer(f"{name} must be a text")
    return value


def _messages(value: Any) -> list[Any]:
    if not isinstance(value, list | tuple):
        raise BadAnswer("it must be a list")
    return list(value)


def _unchanged(event: Any, _so_far: Standing) -> Any:
    return event


def _with_prompt(event: hooks.BeforeAgentStart, so_far: Standing) -> Any:
    return evolve(event, system_prompt=so_far.get("system_prompt", event.system_prompt))


def _with_fields(*names: str) -> Callable[[Any, Standing], Any]:
    def told(event: Any, so_far: Standing) -> Any:
        return evolve(event, **{name: so_far[name] for name in names if name in so_far})

    return told


RULES: Final[Mapping[str, tuple[Rule, Callable[[Any, Standing], Any]]]] = {
    "before_agent_start": (before_agent_start, _with_prompt),
    "context": (context, _with_fields("messages")),
    "before_provider_request": (provider_request, _with_fields("options")),
    "before_provider_payload": (provider_payload, _with_fields("payload")),
    "tool_call": (tool_call, _unchanged),
    "tool_result": (tool_result, _with_fields("content", "details", "is_error")),
    "session_before_compact": (cancellable, _unchanged),
    "session_before_tree": (cancellable, _unchanged),
    "session_before_switch": (cancellable, _unchanged),
    "session_before_fork": (cancellable, _unchanged),
    "input": (typed_input, _with_fields("text", "images")),
    "user_bash": (first_wins, _unchanged),
    "resources_discover": (paths, _unchanged),
}
"""For each point: how answers come together, and what the next handler is told in view of them."""

PLAIN_ONLY: Final[Sequence[str]] = ("resources_discover",)
"""Points where no event loop runs yet: plain functions of the event alone."""

FAIL_CLOSED: Final = frozenset({"tool_call"})
"""Points where a handler that fails means no."""

HEARD: Final = frozenset(
    {
        "session_start",
        "session_shutdown",
        "session_switch",
        "session_fork",
        "agent_start",
        "agent_end",
        "agent_settled",
        "turn_start",
        "turn_end",
    }
    | {"message_start", "message_update", "message_end", "tool_execution_start", "tool_execution_update"}
    | {"tool_execution_end", "model_select", "thinking_level_select", "tools_update", "queue_update", "save_point"}
    | {"session_compact", "session_tree", "session_reset", "after_provider_response", "compaction_start"}
    | {"storage_failed", "provider_switched", "rate_limit_paused", "permission_asked", "permission_decided"}
    | {"auto_retry_start", "auto_retry_end"}
)
"""Events that are only told; what a handler answers is not looked at."""

EVENTS: Final = frozenset(RULES) | HEARD
