"""Edge. `frozen` and `define` of attrs, for classes that many runs never use.

A class made by attrs costs about a third of a millisecond when its module is imported, and the four packages have
hundreds. A class decorated from here is made with its first instance, or when somebody asks for its fields: a program
pays for what it uses. To type checkers, and to everybody once it is made, it is an attrs class without slots. A class
that writes its own `__init__` or `__slots__` is made at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attrs import define, frozen
else:
    from threading import RLock

    import attrs

    _making = RLock()

    class _Unmade:
        """Stands where attrs keeps a class's fields; whoever asks for them has the class made."""

        __slots__ = ("decorate",)

        def __init__(self, decorate):
            self.decorate = decorate

        def __get__(self, _instance, cls):
            owner = next(owner for owner in cls.__mro__ if owner.__dict__.get("__attrs_attrs__") is self)
            _make(owner)
            return owner.__attrs_attrs__

    def _make(cls: type) -> None:
        """Let attrs make the class, unless it is made."""
        with _making:
            unmade = cls.__dict__.get("__attrs_attrs__")
            if isinstance(unmade, _Unmade):
                unmade.decorate(cls)

    def _later(decorator: Any, cls: type, options: dict[str, Any]) -> type:
        def init(self, /, *args, **kwargs):
            _make(cls)
            type(self).__init__(self, *args, **kwargs)

        def setstate(self, state):
            _make(cls)
            self.__dict__.update(state)

        if cls.__dict__.keys() & {"__init__", "__slots__", "__setstate__"}:
            return decorator(**options)(cls)
        cls.__init__, cls.__setstate__ = init, setstate
        cls.__attrs_attrs__ = _Unmade(decorator(slots=False, init=True, **options))
        return cls

    def _lazy(decorator: Any) -> Any:
        def decorate(maybe_cls: type | None = None, **options: Any) -> Any:
            if maybe_cls is not None:
                return _later(decorator, maybe_cls, options)
            return lambda cls: _later(decorator, cls, options)

        return decorate

    define = _lazy(attrs.define)
    define.__doc__ = "`attrs.define`, done with the first instance."
    frozen = _lazy(attrs.frozen)
    frozen.__doc__ = "`attrs.frozen`, done with the first instance."

__all__ = ["define", "frozen"]
