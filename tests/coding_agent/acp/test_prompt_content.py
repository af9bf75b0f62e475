"""Blocks of a prompt as what the model reads."""

import pytest
from acp.schema import (
    AudioContentBlock,
    EmbeddedResourceContentBlock,
    ImageContentBlock,
    ResourceContentBlock,
    TextContentBlock,
    TextResourceContents,
)

from coding_agent.acp.prompt_content import BadContent, prompt_of

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def text(words: str) -> TextContentBlock:
    return TextContentBlock(type="text", text=words)


def test_text_and_links_stand_side_by_side():
    """A link becomes a name that can be read with a tool."""
    link = ResourceContentBlock(type="resource_link", name="a", uri="file:///w/a%20b.py")

    assert prompt_of([text("Look at"), link, text("now")]) == ("Look at @/w/a b.py now", ())


def test_an_embedded_file_says_what_it_is():
    """Its words behind its name."""
    resource = TextResourceContents(uri="file:///w/a.py", text="print()")
    block = EmbeddedResourceContentBlock(type="resource", resource=resource)

    assert '<file name="/w/a.py">\nprint()\n</file>' in prompt_of([text("see"), block])[0]


def test_a_picture_is_checked_by_its_bytes():
    """Its kind is what it is, not what it is called."""
    (image,) = prompt_of([ImageContentBlock(type="image", data=PIXEL, mime_type="image/webp")])[1]

    assert image.mime_type == "image/png"


@pytest.mark.parametrize(
    "block",
    [
        AudioContentBlock(type="audio", data="AAAA", mime_type="audio/wav"),
        ImageContentBlock(type="image", data="AAAA", mime_type="image/png"),
        ImageContentBlock(type="image", data="%%%", mime_type="image/png"),
    ],
)
def test_what_cannot_be_taken_is_refused(block):
    """With a reason."""
    with pytest.raises(BadContent):
        prompt_of([block])
