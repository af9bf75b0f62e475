"""What a command carries is checked before anything begins."""

from collections.abc import Callable
from typing import Any

import pytest

from coding_agent.errors import BadUsage
from coding_agent.rpc.fields import Fields
from lemon_ai import ImageContent


def fields(**given: Any) -> Fields:
    return Fields("order", given)


@pytest.mark.parametrize(
    ("take", "wrong"),
    [
        (lambda given: given.text("x"), [None, 1, [], {}]),
        (lambda given: given.optional_text("x"), [1, [], False]),
        (lambda given: given.flag("x"), [None, 1, "true"]),
        (lambda given: given.optional_flag("x"), ["no", 0]),
        (lambda given: given.texts("x"), [None, "a", [1], {}]),
        (lambda given: given.number("x"), ["1", True, -1, float("nan"), float("inf")]),
        (lambda given: given.choice("x", ("a", "b")), [None, "c", 1]),
    ],
)
def test_a_field_of_the_wrong_kind_is_named(take: Callable[[Fields], Any], wrong: list[Any]):
    """The command and the field are in the text."""
    for value in wrong:
        with pytest.raises(BadUsage, match="order needs x"):
            take(fields(x=value))


def test_what_is_left_out_has_its_default():
    """Optional fields may be left out or null."""
    assert fields().optional_text("x") is None
    assert fields(x=None).optional_flag("x", True) is True
    assert fields().number("x") is None
    assert fields().images() == ()


@pytest.mark.parametrize(
    "image",
    [
        {"type": "image", "data": "aGk=", "mimeType": "image/png"},
        {"type": "image", "source": {"type": "base64", "mediaType": "image/png", "data": "aGk="}},
    ],
)
def test_pictures_come_in_either_shape(image: dict[str, Any]):
    """Clients of two generations send them."""
    assert fields(images=[image]).images() == (ImageContent("aGk=", "image/png"),)


@pytest.mark.parametrize(
    "images", ["x", [1], [{"data": "?", "mimeType": "image/png"}], [{"data": "aGk=", "mimeType": "a/b"}]]
)
def test_what_is_no_picture_is_refused(images: Any):
    """Nothing that is not base64 of a picture reaches a provider."""
    with pytest.raises(BadUsage, match="order needs images"):
        fields(images=images).images()
