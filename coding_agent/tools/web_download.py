"""Edge. The tool `web_download`: a file from the web into the working directory."""

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from coding_agent.tools.arguments import optional_flag, optional_text, required_text
from coding_agent.tools.workspace import Workspace, workspace_for
from lemon_agent import AbortSignal, AgentTool, AgentToolResult, OnUpdate, ToolError, check_abort, external_content

if TYPE_CHECKING:
    from coding_agent.tools.web_client import WebClient

BYTES_MAX: Final = 100_000_000
TIMEOUT_S: Final = 300.0

PARAMETERS: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "url": {"type": "string", "description": "An http or https URL."},
        "path": {"type": "string", "description": "Where to put it; by default the URL's last part."},
        "overwrite": {"type": "boolean", "description": "Replace a file that is there already."},
    },
    "required": ["url"],
}

DESCRIPTION: Final = (
    f"Download a file from the web, at most {BYTES_MAX // 1_000_000} MB. "
    "Addresses inside the local network are refused."
)


def web_download_tool(cwd: str, **options: Any) -> AgentTool:
    """The tool `web_download` for a working directory; see `Workspace` and `web_fetch_tool` for the options."""
    web, allowed = options.pop("web", None), tuple(options.pop("web_allowed", ()))
    workspace = workspace_for(cwd, options)

    async def execute(
        _id: str, params: dict[str, Any], signal: AbortSignal | None = None, _on_update: OnUpdate | None = None
    ) -> AgentToolResult:
        from coding_agent.tools.aborting import unless_aborted
        from coding_agent.tools.web_client import WebClient, WebPolicy

        check_abort(signal)
        url = required_text(params, "url", "url is required")
        path = optional_text(params, "path") or name_of(url)
        client = web or WebClient(WebPolicy(allowed))
        work = download(workspace, client, url, path, optional_flag(params, "overwrite"))
        return await unless_aborted(work, signal)

    return AgentTool(
        name="web_download",
        label="Download",
        description=DESCRIPTION,
        parameters=PARAMETERS,
        execute=execute,
        main_argument="url",
    )


def name_of(url: str) -> str:
    """A file name from the URL's path.

    Raises:
        ToolError: It has none.
    """
    with suppress(ValueError):
        name = unquote(urlsplit(url).path).rpartition("/")[2]
        if name and name not in (".", "..") and "/" not in name and "\0" not in name and not name.startswith("."):
            return name
    raise ToolError("path is required: the URL names no file")


async def download(workspace: Workspace, client: "WebClient", url: str, path: str, overwrite: bool) -> AgentToolResult:
    """Fetch into a temporary file beside the target, then put it in place.

    Raises:
        ToolError: It could not be done; nothing is left.
    """
    import asyncio

    from coding_agent.tools.files import Fence, Incoming, Version
    from coding_agent.tools.web_address import AddressRefused
    from coding_agent.tools.web_client import FetchFailed

    place = await workspace.place(path, "write")
    if place.status is not None and not overwrite:
        raise ToolError(f"{path} exists already; set overwrite to replace it")
    shown, real = place.shown, place.real
    async with workspace.writing(real):
        incoming = await asyncio.to_thread(Incoming, place)
        try:
            permit = partial(workspace.permits_url, "web_download")
            async with client.get(url, headers={"Accept": "*/*"}, timeout_s=TIMEOUT_S, permit=permit) as page:
                if page.status >= 400:
                    raise ToolError(f"{page.url} answered {page.status}")
                async for piece in page.pieces(BYTES_MAX):
                    incoming.write(piece)
                if page.truncated:
                    raise ToolError(f"{page.url} is larger than {BYTES_MAX} bytes")
            status = await asyncio.to_thread(incoming.put_in_place, Fence())
        except AddressRefused as error:
            raise ToolError(f"Not downloaded: {error}") from error
        except FetchFailed as error:
            raise ToolError(f"Cannot download {url}: {error}") from error
        finally:
            incoming.close()
    workspace.saw(real, Version.of(status))
    payload = {
        "url": url,
        "finalUrl": page.url,
        "status": page.status,
        "contentType": page.content_type,
        "path": shown,
        "bytes": status.st_size,
        "sha256": incoming.sha256,
    }
    payload = external_content.with_trust_metadata(
        "web_download", payload, source="web_fetch", wrapped_fields=[], warning_included=False
    )
    return external_content.untrusted_json_result(payload)
