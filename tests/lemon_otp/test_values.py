"""Values whose classes are made when they are first used."""

import copy
import pickle
import threading
from typing import Generic, TypeVar

import attrs
import pytest
from attrs import evolve, field

from lemon_otp import define, frozen

R = TypeVar("R")


class Asked(Generic[R]):
    __slots__ = ()


@frozen
class Point(Asked[int]):
    x: int
    tags: tuple[str, ...] = field(default=(), converter=tuple)


def unmade(cls: type) -> bool:
    return type(cls.__dict__.get("__attrs_attrs__")).__name__ == "_Unmade"


def test_a_class_is_made_with_its_first_instance():
    """Until then importing it costs next to nothing; from then on it is an attrs class."""

    @frozen
    class Fresh:
        x: int

    assert unmade(Fresh)
    assert Fresh(1) == Fresh(x=1)
    assert not unmade(Fresh)
    assert repr(Fresh(1)).endswith("Fresh(x=1)")
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        Fresh(1).x = 2
    with pytest.raises(TypeError):
        Fresh()


def test_it_is_in_every_respect_what_attrs_makes():
    """Converters, patterns, hashes, copies, changes; a class of another kind beside it in a match is not disturbed."""
    point = Point(1, ["a"])
    match point:
        case Point(x, tags):
            assert (x, tags) == (1, ("a",))
    assert hash(point) == hash(Point(1, ("a",)))
    assert evolve(point, x=2) == Point(2, ("a",))
    assert copy.copy(point) == pickle.loads(pickle.dumps(point)) == point


def test_who_asks_for_the_fields_has_the_class_made():
    """A subclass made by attrs itself, and tools that read fields, find them."""

    @frozen(kw_only=True)
    class Base:
        n: int = 3

    @attrs.frozen
    class Child(Base):
        m: int = 0

    assert [attribute.name for attribute in attrs.fields(Child)] == ["n", "m"]
    assert Child(m=2).n == 3
    assert not unmade(Base)


def test_a_plain_subclass_is_its_own_kind_of_the_same_shape():
    """Equal only to its own kind."""

    @frozen
    class Shape:
        n: int

    class Round(Shape):
        __slots__ = ()

    assert Round(1) == Round(1)
    assert Round(1) != Shape(1)


def test_exceptions_can_be_values_too():
    """As they are in every `errors.py`."""

    @define(kw_only=True, eq=False)
    class Failed(Exception):
        where: str

    with pytest.raises(Failed) as failed:
        raise Failed(where="here")
    assert failed.value.where == "here"


def test_two_threads_may_be_first():
    """The class is made once."""

    @frozen
    class Shared:
        n: int = 1

    made: list[int] = []
    barrier = threading.Barrier(8)

    def first() -> None:
        barrier.wait()
        made.append(Shared().n)

    threads = [threading.Thread(target=first) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == [1] * 8


def test_a_class_with_an_init_or_slots_of_its_own_is_made_at_once():
    """Nothing of it is put off."""

    @define
    class Own:
        n: int

        def __init__(self) -> None:
            self.n = 7

    assert not unmade(Own)
    assert Own().n == 7
