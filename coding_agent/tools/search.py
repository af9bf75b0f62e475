"""Edge. What the tool `grep` does: ask ripgrep, or our own program, and put what it found in order.

Loaded with the first search.
"""

import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

from attrs import frozen

from coding_agent.tools.arguments import optional_flag, optional_number, optional_text, required_text
from coding_agent.tools.folders import open_folder
from coding_agent.tools.hits import Hits, printed
from coding_agent.tools.keeper import Program
from coding_agent.tools.path_globs import BadGlob, path_pattern
from coding_agent.tools.paths import Place
from coding_agent.tools.program_run import ProgramRun
from coding_agent.tools.regex_dialect import BadPattern, Pattern, literal, pattern
from coding_agent.tools.workspace import Workspace
from lemon_agent import AbortSignal, AgentToolResult, ToolError, text_result

TIMEOUT_S: Final = 30.0
RESULTS: Final = 100
RESULTS_MAX: Final = 2_000
CONTEXT_MAX: Final = 50
FAR_TOO_MANY: Final = 1_000_000_000
UNSORTED_BYTES_MAX: Final = 4_000_000
"""When an unsorted search finds more than this, a sorted one that can stop early is the faster way."""
SEARCH_PROGRAM: Final = Path(__file__).with_name("search_main.py")


@frozen
class Request:
    """What is searched for.

    Attributes:
        forms: The pattern for either engine.
        plain: It is text, not an expression.
    """

    forms: Pattern
    text: str
    plain: bool
    ignore_case: bool
    glob: str | None
    context: int
    limit: int


def request_of(params: dict[str, Any]) -> Request:
    """The arguments, checked.

    Raises:
        ToolError: One of them makes no sense.
    """
    text = required_text(params, "pattern", "Pattern is required")
    plain = optional_flag(params, "literal")
    glob = optional_text(params, "glob")
    try:
        forms = literal(text) if plain else pattern(text)
        if glob is not None:
            path_pattern(glob.removeprefix("!"))
    except (BadPattern, BadGlob) as error:
        raise ToolError(f"Invalid pattern: {error}") from error
    return Request(
        forms=forms,
        text=text,
        plain=plain,
        ignore_case=not optional_flag(params, "case_sensitive", True),
        glob=glob,
        context=optional_number(params, "context_lines", 0, least=0, most=CONTEXT_MAX),
        limit=optional_number(params, "max_results", RESULTS, most=RESULTS_MAX),
    )


async def search(
    workspace: Workspace, place: Place, request: Request, rg: str | None, signal: AbortSignal | None
) -> tuple[Hits, bool]:
    """Everything found, up to the limit and in order, and whether the time ran out before the end.

    Raises:
        ToolError: Nothing to search there, or no engine for this pattern.
    """
    if place.status is None:
        raise ToolError(f"Path not found: {place.given}")
    if not place.is_dir:
        if request.forms.python is None:
            raise ToolError("Invalid pattern: this expression cannot be used on a single file; search its directory")
        prefix = place.shown[: len(place.shown) - len(place.name)]
        return await run_own(workspace, place.directory, prefix, request, place.name, None, signal)
    prefix = "" if place.shown == "." else place.shown + "/"
    concealed = workspace.concealed("grep", place)
    with open_folder(place) as folder:
        if rg is not None and request.forms.rust is not None:
            return await run_ripgrep(workspace, folder, prefix, request, rg, concealed, signal)
        if request.forms.python is None:
            raise ToolError("Invalid pattern: this expression needs ripgrep, which is not installed")
        return await run_own(workspace, folder, prefix, request, None, concealed, signal)


async def run_ripgrep(
    workspace: Workspace,
    folder: int,
    prefix: str,
    request: Request,
    rg: str,
    concealed: Callable[[str], bool] | None,
    signal: AbortSignal | None,
) -> tuple[Hits, bool]:
    """In parallel first; when that finds too much to sort, again in order and only to the limit."""
    hits = Hits(prefix, request.context, request.limit, folder, concealed)
    argv = ripgrep_arguments(request, rg)
    run = ProgramRun(workspace.keeper, stop_after=UNSORTED_BYTES_MAX)
    end = await run.until_ended(program(workspace, argv, folder), hits.feed, TIMEOUT_S, signal)
    if end.stopped:
        hits = Hits(prefix, request.context, request.limit, folder, concealed)
        run = ProgramRun(workspace.keeper, stop_when=lambda: hits.full)
        end = await run.until_ended(
            program(workspace, [*argv[:1], "--sort=path", *argv[1:]], folder), hits.feed, TIMEOUT_S, signal
        )
    if end.code == 2 and not hits.found:
        reason = "\n".join(end.errors.decode(errors="replace").strip().splitlines()[:5])
        raise ToolError(f"Search failed: {reason}")
    return hits, end.timed_out


def ripgrep_arguments(request: Request, rg: str) -> list[str]:
    """The command line. Nothing of the user's settings counts, so that every machine gives one answer."""
    assert request.forms.rust is not None
    argv = [rg, "--no-config", "--json", "--hidden", "--no-require-git", "--no-ignore-dot", "--no-ignore-exclude"]
    argv += ["--no-ignore-global", "--text", "--crlf", "--max-filesize=64M", f"--max-count={request.limit + 1}"]
    argv += [f"--context={request.context}", "--ignore-case" if request.ignore_case else "--case-sensitive"]
    if request.plain:
        argv.append("--fixed-strings")
    if request.glob is not None:
        argv.append(f"--glob={request.glob}")
    return [*argv, "--glob=!.git", f"--regexp={request.forms.rust}", "--", "./"]


async def run_own(
    workspace: Workspace,
    folder: int,
    prefix: str,
    request: Request,
    only: str | None,
    concealed: Callable[[str], bool] | None,
    signal: AbortSignal | None,
) -> tuple[Hits, bool]:
    """By our own program."""
    hits = Hits(prefix, request.context, request.limit, folder, concealed)
    wanted = {
        "pattern": request.forms.python,
        "by_line": request.forms.by_line,
        "literal": request.text if request.plain else None,
        "ignore_case": request.ignore_case,
        "glob": request.glob,
        "context": request.context,
        "limit": request.limit if concealed is None else FAR_TOO_MANY,  # what is not shown does not count
        "only": only,
        "sys_path": [path for path in sys.path if path.endswith("-packages")],
    }
    argv = [sys.executable, "-I", "-S", str(SEARCH_PROGRAM), json.dumps(wanted)]
    run = ProgramRun(workspace.keeper, stop_when=lambda: hits.full)
    end = await run.until_ended(program(workspace, argv, folder), hits.feed, TIMEOUT_S, signal)
    if end.code not in (0, None) and not end.stopped and not end.timed_out:
        raise ToolError(f"Search failed: {end.errors.decode(errors='replace').strip().splitlines()[-1:]}")
    return hits, end.timed_out


def program(workspace: Workspace, argv: Iterable[str], folder: int) -> Program:
    """A search program in the directory to search."""
    return Program(argv=tuple(argv), env=workspace.environment(), cwd=folder, split_errors=True)


def report(hits: Hits, request: Request, timed_out: bool) -> AgentToolResult:
    """What the model is told."""
    found = hits.in_order()
    count = sum(hit.matches for hit in found)
    details: dict[str, Any] = {
        "matches": count,
        "files": len({hit.path for hit in found}),
        "truncated": hits.full,
        "max_results": request.limit,
    }
    notes = []
    if timed_out:
        notes.append(f"[The search was stopped after {TIMEOUT_S:g} seconds; there may be more.]")
    if hits.concealed:
        details["files_not_shown"] = hits.concealed
        notes.append("[Matches in files that the permission rules keep from this search are not shown.]")
    if not found:
        return text_result("\n\n".join(["No matches found.", *notes]), details)
    text, hidden, cut = printed(found, request.context)
    if hits.full:
        notes.append(f"[Only the first {count} matching lines are shown; narrow the pattern, path or glob.]")
    if cut.bytes:
        details["truncated"] = True
        notes.append("[The rest is left out: too long.]")
    if cut.lines:
        notes.append("[Long lines are cut around their match.]")
    head = f"Found {count} {'match' if count == 1 else 'matches'}."
    return text_result("\n\n".join([f"{head}\n{text}", *notes]), details, trust="untrusted" if hidden else "trusted")
