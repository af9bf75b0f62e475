"""Edge. Opening the directory at a checked `Place`."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from coding_agent.tools.paths import Place, path_error
from lemon_agent import ToolError


@contextmanager
def open_folder(place: Place) -> Iterator[int]:
    """The directory there, open while in the block.

    Raises:
        ToolError: There is none, or it may not be listed.
    """
    if place.status is None:
        raise ToolError(f"Path not found: {place.given}")
    if not place.is_dir:
        raise ToolError(f"Path is not a directory: {place.given}")
    try:
        fd = os.open(place.name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=place.directory)
    except OSError as error:
        raise path_error(error, place.given) from error
    try:
        yield fd
    finally:
        os.close(fd)
