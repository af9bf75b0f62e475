"""Pure, but for an optional library. Pictures as a model can take them: kind and size by their bytes, made smaller."""

import struct
from typing import Any, Final

from attrs import frozen

SIDE_MAX: Final = 2000
"""Pixels; beyond that models shrink a picture themselves, or refuse it."""
BYTES_MAX: Final = 4_500_000
PIXELS_MAX: Final = 100_000_000
"""More is not decoded: a few kilobytes can unfold to gigabytes."""
SHRUNK_SIDE: Final = 1568


@frozen
class Picture:
    """What the first bytes of a picture say.

    Attributes:
        mime_type: Its kind.
        width, height: In pixels; 0 when the header does not show it.
    """

    mime_type: str
    width: int = 0
    height: int = 0

    @property
    def fits(self) -> bool:
        """Small enough in pixels to be sent as it is."""
        return max(self.width, self.height) <= SIDE_MAX


class CannotShrink(Exception):
    """The picture is too large and cannot be made smaller; the text says why."""


def picture_kind(data: bytes) -> Picture | None:
    """The kind of picture these bytes are, None when they are none that models take."""
    if data.startswith(b"\x89PNG\r\n\x1a\n") and len(data) >= 24:
        return Picture("image/png", *struct.unpack(">II", data[16:24]))
    if data[:6] in (b"GIF87a", b"GIF89a") and len(data) >= 10:
        return Picture("image/gif", *struct.unpack("<HH", data[6:10]))
    if data.startswith(b"\xff\xd8\xff"):
        return Picture("image/jpeg", *jpeg_size(data))
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return Picture("image/webp", *webp_size(data))
    return None


def jpeg_size(data: bytes) -> tuple[int, int]:
    """Width and height from the frame header; zeros when it is not in these bytes."""
    at = 2
    while at + 9 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            return width, height
        at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return 0, 0


def webp_size(data: bytes) -> tuple[int, int]:
    """Width and height from whichever of the three headers stands there."""
    kind = data[12:16]
    if kind == b"VP8X" and len(data) >= 30:
        return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
    if kind == b"VP8L" and len(data) >= 25:
        bits = int.from_bytes(data[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8 " and len(data) >= 30:
        width, height = struct.unpack("<HH", data[26:30])
        return width & 0x3FFF, height & 0x3FFF
    return 0, 0


def shrunk(data: bytes, picture: Picture) -> tuple[bytes, str]:
    """The picture made small enough, with its kind. Needs Pillow, the extra `images`.

    Raises:
        CannotShrink: Pillow is not installed, or the picture is damaged or unfolds to too much.
    """
    if picture.width * picture.height > PIXELS_MAX:
        raise CannotShrink(f"it has {picture.width} x {picture.height} pixels")
    try:
        from PIL import Image  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        raise CannotShrink("making it smaller needs Pillow (the extra `images`)") from None
    import io

    try:
        image: Any = Image.open(io.BytesIO(data))
        image.thumbnail((SHRUNK_SIDE, SHRUNK_SIDE))
        out = io.BytesIO()
        if image.mode in ("RGBA", "LA", "P"):
            image.convert("RGBA").save(out, "PNG", optimize=True)
            if out.tell() <= BYTES_MAX:
                return out.getvalue(), "image/png"
            out = io.BytesIO()
        image.convert("RGB").save(out, "JPEG", quality=85)
        return out.getvalue(), "image/jpeg"
    except Exception as error:
        raise CannotShrink(f"it cannot be decoded: {error}") from error
