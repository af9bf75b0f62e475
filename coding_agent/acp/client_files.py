"""Edge. The tools `read`, `write` and `edit` on files as the editor has them, unsaved changes included.

Where a path leads and whether it may be used is decided here as ever; only what is in the file comes from the client,
and goes there. What an editor does not do, pictures, notebooks, other encodings, very long files, is done on the disk.
"""

import asyncio
import io
import os
from collections.abc import Callable
from typing import Any, Final

from attrs import frozen

from coding_agent.acp.client_calls import ClientCalls
from coding_agent.acp.through_client import Call, at_place
from coding_agent.acp.wire import Refused
from coding_agent.tools import Workspace
from coding_agent.tools.aborting import unless_aborted
from coding_agent.tools.arguments import optional_number, required_text
from coding_agent.tools.files import Fence, Version, open_regular
from coding_agent.tools.images import picture_kind
from coding_agent.tools.paths import Place
from coding_agent.tools.read import LINES_MAX
from coding_agent.tools.text_file import looks_binary
from lemon_agent import AbortSignal, AgentTool, AgentToolResult, ToolError, text_result

READ_BYTES_MAX: Final = 8 * 1024 * 1024
"""A larger file is read from the disk."""
DIFFED_MAX: Final = 512 * 1024
SAMPLE: Final = 8192

Held = Callable[[str, str], None]
"""Told the id of a call and what its file held before."""


@frozen(eq=False)
class ClientFiles:
    """The files of one session.

    Attributes:
        calls: Asks the client.
        workspace: Decides about paths.
        held: Told what a file held before it is written.
    """

    calls: ClientCalls
    workspace: Workspace
    held: Held

    def reading(self, tool: AgentTool) -> AgentTool:
        """`read` through the client; `tool` is the one that reads the disk."""
        return at_place(self.workspace, tool, "read", self._read_at, tolerant=True)

    def writing(self, tool: AgentTool) -> AgentTool:
        """`write` through the client; `tool` is the one that writes to the disk."""
        return at_place(self.workspace, tool, "write", self._write_at, tolerant=False)

    def editing(self, tool: AgentTool) -> AgentTool:
        """`edit` through the client; `tool` is the one that edits the disk."""
        return at_place(self.workspace, tool, "write", self._edit_at, tolerant=True)

    async def _read_at(self, call: Call, place: Place) -> AgentToolResult | None:
        if "byte_offset" in call.params or place.given.endswith(".ipynb"):
            return None
        text = await unless_aborted(self._text(place), call.signal)
        if text is None:
            return None
        offset = max(1, optional_number(call.params, "offset", 1, least=-(2**62)))
        limit = optional_number(call.params, "limit", LINES_MAX, most=LINES_MAX)
        self.workspace.saw(place.real, await _version(place))
        return await asyncio.to_thread(_shown, place, text, offset, limit)

    async def _write_at(self, call: Call, place: Place) -> AgentToolResult | None:
        content = required_text(call.params, "content", "Content is required", empty=True)
        async with self.workspace.writing(place.real):
            if not await asyncio.to_thread(_is_text, place):
                return None
            before = await unless_aborted(self._as_shown(place), call.signal)
            if before is not None:
                self.held(call.id, before)
            await self._write(place, content, call.signal)
        details: dict[str, Any] = {"path": place.shown, "bytes_written": len(content.encode(errors="replace"))}
        details |= {"created": before is None, "formatted": False}
        if before is not None and max(len(before), len(content)) <= DIFFED_MAX:
            details["diff"] = await asyncio.to_thread(_diff, before, content)
        return text_result(f"Successfully wrote {details['bytes_written']} bytes to {place.given}", details)

    async def _edit_at(self, call: Call, place: Place) -> AgentToolResult | None:
        async with self.workspace.writing(place.real):
            text = await unless_aborted(self._text(place), call.signal)
            return None if text is None else await self._edit(place, text, call.params, call.signal)

    async def _edit(
        self, place: Place, text: str, params: dict[str, Any], signal: AbortSignal | None
    ) -> AgentToolResult:
        from coding_agent.tools.edit_file import Edited, edits_of, line_span, planned, report
        from coding_agent.tools.text_file import decode

        edits = edits_of(params)

        def change() -> tuple[str, Edited]:
            from coding_agent.tools import diff

            file = decode(text.encode(errors="surrogatepass"))
            changes = planned(place, file, edits, False)
            new = b"".join(file.spliced([(each.start, each.end, each.new) for each in changes])).decode()
            first_line = diff.first_changed_line(file.text, changes)
            loose = [line_span(file.text, each) for each in changes if each.loose]
            shown = diff.unified(file.text, changes, first_line)
            version = Version(0, 0, 0)  # the one on the disk is looked at afterwards
            return new, Edited(place.shown, place.real, version, changes, shown, first_line, loose, file.encoding)

        new, edited = await asyncio.to_thread(change)
        await self._write(place, new, signal)
        return report(edited)

    async def _text(self, place: Place) -> str | None:
        """The file as the editor has it; None when it is none for an editor, or the editor has nothing to say."""
        return await self._as_shown(place) if await asyncio.to_thread(_is_text, place) else None

    async def _as_shown(self, place: Place) -> str | None:
        try:
            return await self.calls.read_file(place.real)
        except (Refused, TimeoutError):
            return None

    async def _write(self, place: Place, content: str, signal: AbortSignal | None) -> None:
        try:
            await unless_aborted(self.calls.write_file(place.real, content), signal)
        except Refused as error:
            raise ToolError(f"{place.given} could not be written: {error}") from error
        except TimeoutError:
            raise ToolError(f"{place.given}: the editor does not say whether it was written") from None
        self.workspace.saw(place.real, await _version(place))


async def _version(place: Place) -> Version | None:
    """What is on the disk now; None when nothing is."""

    def look() -> Version | None:
        try:
            return Version.of(os.stat(place.real, follow_symlinks=False))
        except OSError:
            return None

    return await asyncio.to_thread(look)


def _is_text(place: Place) -> bool:
    """Is what is on the disk something an editor shows as UTF-8 text, and not too long? Yes for a file yet to be."""
    if place.kernel or place.is_dir:
        return False
    if place.status is None:
        return True
    if place.status.st_size > READ_BYTES_MAX:
        return False
    try:
        with os.fdopen(open_regular(place), "rb") as file:
            sample = file.read(SAMPLE)
    except ToolError:
        return False  # whoever reads the disk says why
    if looks_binary(sample) or picture_kind(sample) is not None:
        return False
    try:
        sample[:-4].decode("utf-8")
    except UnicodeDecodeError as error:
        return error.start >= len(sample) - 8
    return True


def _shown(place: Place, text: str, offset: int, limit: int) -> AgentToolResult:
    """The lines with their numbers, as `read` shows them."""
    from coding_agent.tools.line_reader import Limits, read_lines
    from coding_agent.tools.read_file import BYTES_MAX, TOKENS_MAX, text_answer

    data = text.encode(errors="replace")
    limits = Limits(lines=limit, bytes=BYTES_MAX, tokens=TOKENS_MAX)
    part = read_lines(io.BytesIO(data), offset, limits, Fence())
    return text_answer(place, part, offset, data[:SAMPLE])


def _diff(before: str, after: str) -> str:
    from coding_agent.tools import diff

    return diff.whole(before, after)
