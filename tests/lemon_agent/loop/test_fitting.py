"""A hook is called with no more than it takes."""

from functools import partial, wraps
from unittest.mock import Mock

import pytest

from lemon_agent.loop.fitting import call_fitting


class _Callable:
    __slots__ = ()

    def __call__(self, first):
        return (first,)

    def method(self, first):
        return (first,)

    def both(self, first, second=None):
        return (first, second)


def _two(first, second, *, tell=None):
    return (first, second)


def _wrapped(inner, *, strict):
    @wraps(inner)
    def takes_anything(*args):
        return inner(*args)

    @wraps(inner)
    def takes_two(first, second):
        return (*inner(first), second)

    return takes_two if strict else takes_anything


@pytest.mark.parametrize(
    ("hook", "given"),
    [
        (lambda: (), 0),
        (lambda first: (first,), 1),
        (lambda first, /: (first,), 1),
        (lambda first, second: (first, second), 2),
        (lambda first, second=None: (first, second), 2),
        (lambda *args: args, 2),
        (lambda first, *rest: (first, *rest), 2),
        (lambda first, *, more=None: (first,), 1),
        (partial(_two, tell=1), 2),
        (_wrapped(lambda first: (first,), strict=False), 1),
        (_wrapped(lambda first: (first,), strict=True), 2),
        (_Callable(), 1),
        (_Callable().method, 1),
        (_Callable().both, 2),
    ],
)
@pytest.mark.requirement("HOOK-8")
def test_a_hook_is_told_as_much_as_it_has_places_for(hook, given):
    """Arguments without a place are left out from the end; asking again, of a hook that is known, gives the same."""
    for _ in range(2):
        assert call_fitting(hook, "a", "b") == ("a", "b")[:given]


def test_a_hook_that_does_not_say_what_it_takes_is_told_everything():
    """Doubles of tests, and functions without a signature, get all there is."""
    double = Mock(return_value="said")
    assert call_fitting(double, "a", "b") == "said"
    double.assert_called_once_with("a", "b")
    assert call_fitting(max, 1, 2) == 2


def test_a_hook_that_wants_more_than_there_is_fails_as_any_call_does():
    """Nothing is made up for a parameter nobody knows."""
    with pytest.raises(TypeError, match="third"):
        call_fitting(lambda first, second, third: None, "a", "b")
