"""Edge. Executes ops in the calling process, and records what they gave.

An op is a function in `ops/`, registered under its name by `@op`. It is given the `Place` where it stands and
its own fields, and returns what its event shows, or `NOTHING`.
"""

from __future__ import annotations

import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from attrs import frozen

from lemon_otp import Address, Caller, Pid, Via, self_pid, whereis
from tests.conformance.failures import FAILURES, bad_argument, failure_of
from tests.conformance.terms import NIL, to_term
from tests.conformance.world import DRIVER, Actor, Event, InterpreterFault, Life, World

Fields: TypeAlias = Mapping[str, Any]
Returned: TypeAlias = Fields | None
"""The `return` op that ended a body, if one did."""


class _Nothing:
    def __repr__(self) -> str:
        return "NOTHING"


NOTHING: Final = _Nothing()
"""What an op returns that leaves no event."""


@frozen
class Place:
    """Where ops stand: in whose body, and which call is being answered."""

    world: World
    actor: Actor
    caller: Caller | None = None

    def log(self, name: str, *terms: Any) -> None:
        """Record an event in the stream of the executing process."""
        self.world.log.append(Event(self.actor.label, name, terms))

    def lived(self, kind: str, *reason: Any) -> None:
        """Record a lifecycle callback of the executing process."""
        self.world.log.append(Life(kind, self.actor.label, self.actor.parent, reason))

    def term(self, template: Any) -> Any:
        """The term of a template, as the executing process sees it."""
        return to_term(template, self._look_up)

    def _look_up(self, kind: str, argument: Any) -> Any:
        if kind == "pid":
            return self.pid(argument)
        if kind == "state":
            return self.actor.state.get(argument, NIL)
        if kind == "args":
            return self.actor.args[argument] if argument < len(self.actor.args) else NIL
        raise InterpreterFault(f"unknown term {kind!r}")

    def address(self, reference: Any) -> Address:
        """What the library takes for a reference: a pid, a name, or a Via."""
        if reference == "self":
            return self_pid()
        if isinstance(reference, str):
            return self.world.pids[DRIVER] if reference == DRIVER else self.world.process(reference)
        if "name" in reference:
            return str(reference["name"])
        registry, key = reference["via"][:2]
        return Via(registry, self.term(key))

    def pid(self, reference: Any) -> Any:
        """The process of a reference; the atom nil for a name that nobody has."""
        address = self.address(reference)
        if isinstance(address, Pid):
            return address
        return whereis(address) or NIL

    def process(self, reference: Any) -> Pid:
        """The process of a reference; a bad argument when nobody has the name."""
        pid = self.pid(reference)
        if pid is NIL:
            raise bad_argument()
        return pid  # type: ignore[no-any-return]


Op: TypeAlias = Callable[[Place, Fields], Awaitable[Any]]
OPS: Final[dict[str, Op]] = {}
ESCAPING: Final = ("exit", "raise", "throw")


def op(name: str) -> Callable[[Op], Op]:
    """Register the op of that name."""

    def register(function: Op) -> Op:
        OPS[name] = function
        return function

    return register


async def run_ops(ops: Sequence[Fields] | None, place: Place) -> Returned:
    """Execute a body up to its end or its first `return`, which is given back."""
    for fields in ops or ():
        returned = await run_op(fields, place)
        if returned is not None:
            return returned
    return None


async def run_op(fields: Fields, place: Place) -> Returned:
    """Execute one op and record its event; a `return`, also inside of `when`, is given back."""
    name = fields["op"]
    if name == "return":
        return fields
    if name == "when":
        return await run_ops(fields["do"], place) if _applies(fields, place.actor.number) else None
    result = await _attempt(name, fields, place)
    if result is not NOTHING and not fields.get("quiet"):
        place.log(name, result)
    return None


def _applies(fields: Fields, number: int) -> bool:
    from_number = fields.get("from_inc")
    return number in fields.get("inc", ()) or (from_number is not None and number >= from_number)


async def _attempt(name: str, fields: Fields, place: Place) -> Any:
    function = OPS.get(name)
    if function is None:
        raise _fault(place, f"unsupported op {name!r}")
    try:
        return await function(place, fields)
    except FAILURES as error:
        if name in ESCAPING or fields.get("catch") is False or not self_pid().alive:
            raise
        return failure_of(error)
    except Exception as error:
        raise _fault(place, "".join(traceback.format_exception(error))) from error


def _fault(place: Place, why: str) -> InterpreterFault:
    place.world.fault = place.world.fault or why
    return InterpreterFault(why)


def seconds(milliseconds: Any) -> float | None:
    """A timeout of the scenario language; None waits for ever."""
    return None if milliseconds == "infinity" else milliseconds / 1000
