"""Edge of the program: plain values of ours as the camelCase JSON that clients of this kind of agent speak.

For values whose JSON is their fields, one to one. What has a form of its own is in `wire` (events) and `messages`.
"""

from functools import cache
from typing import TYPE_CHECKING, Any, get_origin

from attrs import fields, has

from lemon_otp import Pid

if TYPE_CHECKING:
    from cattrs import Converter


def to_json(value: Any) -> Any:
    """The JSON value of an attrs value: fields in camelCase, sets and tuples as lists, processes by their text."""
    return _converter().unstructure(value)


def camel(name: str) -> str:
    """`tool_call_id` as `toolCallId`."""
    head, *rest = name.split("_")
    return head + "".join(part.title() for part in rest)


@cache
def _converter() -> "Converter":
    from cattrs import Converter  # only programs that print JSON pay for the import
    from cattrs.gen import make_dict_unstructure_fn, override

    converter = Converter()

    def renamed(cls: type) -> Any:
        names = {field.name: override(rename=camel(field.name)) for field in fields(cls)}
        return make_dict_unstructure_fn(cls, converter, **names)  # type: ignore[arg-type]

    converter.register_unstructure_hook_factory(has, renamed)
    converter.register_unstructure_hook(Pid, str)
    converter.register_unstructure_hook_func(_is_tuple, lambda value: [converter.unstructure(item) for item in value])
    converter.register_unstructure_hook_func(_is_set, lambda value: sorted(map(converter.unstructure, value)))
    return converter


def _is_tuple(kind: Any) -> bool:
    return kind is tuple or get_origin(kind) is tuple


def _is_set(kind: Any) -> bool:
    return kind in (set, frozenset) or get_origin(kind) in (set, frozenset)
