"""Edge. Tools that change files, with a checkpoint before each call; and commands, with a look at what they changed.

The checkpoint is written before the tool runs and completed after it, so that whatever happens in between, what was
there is kept. When it cannot be kept the tool does not run. Result details gain `checkpoint_id`, `checkpoint_kind`;
those of a command `changed_files`.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from attrs import evolve

from coding_agent.tool_kinds import CHANGES_FILES
from lemon_agent import AbortSignal, AgentTool, AgentToolResult, OnUpdate, ToolError
from lemon_otp import Pid

if TYPE_CHECKING:
    from coding_agent.checkpoints.records import Checkpoint, Kind
    from coding_agent.checkpoints.store import CheckpointStore
    from coding_agent.tools import Workspace

RUNS_COMMANDS: Final = frozenset({"bash", "execute_code"})


class Checkpoints:
    """Where the checkpoints of a session and its subagents go: a companion of `SessionOptions`, and its tool binder.

    They all go into one store, so that they stand in one order; each says whose call it was.

    Attributes:
        store: None until a session has begun; nothing is kept then.
    """

    def __init__(self) -> None:
        self.store: CheckpointStore | None = None
        self._session: Pid | None = None
        self._names: dict[Pid, str] = {}

    def join(self, session: Pid, file: Path, _tell: Callable[..., None]) -> Mapping[str, Any]:
        """Go along with a session. The first is whose file counts; one that begins beside it is its subagent."""
        if self._session is None or self._session == session or not self._session.alive:
            from coding_agent.checkpoints.store import store_for

            self._session, self.store = session, store_for(file)
        self._names = {pid: name for pid, name in self._names.items() if pid.alive}
        self._names[session] = file.stem
        return {}

    def bind(self, tools: tuple[AgentTool, ...], session: Pid) -> tuple[AgentTool, ...]:
        """The same tools for one session: their checkpoints say that it was its call."""
        return tuple(
            evolve(tool, execute=watch.bound_to(session).execute)
            if isinstance(watch := getattr(tool.execute, "__self__", None), _Watch) and watch.checkpoints is self
            else tool
            for tool in tools
        )

    def name_of(self, session: Pid | None) -> str:
        """What the file of a session is called; the first one's when it is not known which."""
        session = session or self._session
        return "" if session is None else self._names.get(session, "")


def with_checkpoints(
    tools: Iterable[AgentTool], workspace: "Workspace", checkpoints: Checkpoints
) -> tuple[AgentTool, ...]:
    """The same tools; those that change files or run commands do it under watch."""
    return tuple(_watched(tool, workspace, checkpoints) for tool in tools)


def _watched(tool: AgentTool, workspace: "Workspace", checkpoints: Checkpoints) -> AgentTool:
    if tool.name in CHANGES_FILES:
        watch: Any = _Files(tool, workspace, checkpoints)
    elif tool.name in RUNS_COMMANDS:
        watch = _Commands(tool, workspace, checkpoints)
    else:
        return tool
    return evolve(tool, execute=watch.execute)


class _Watch:
    def __init__(
        self, tool: AgentTool, workspace: "Workspace", checkpoints: Checkpoints, session: Pid | None = None
    ) -> None:
        self.tool = tool
        self.workspace = workspace
        self.checkpoints = checkpoints
        self.session = session

    def bound_to(self, session: Pid) -> Any:
        """The same for the calls of one session."""
        return type(self)(self.tool, self.workspace, self.checkpoints, session)

    def begun(self, store: "CheckpointStore", kind: "Kind", call_id: str) -> "Checkpoint":
        return store.begin(kind, call_id, self.tool.name, self.checkpoints.name_of(self.session))


class _Files(_Watch):
    """A tool that changes files it is told."""

    async def execute(
        self, call_id: str, params: dict[str, Any], signal: AbortSignal | None = None, on_update: OnUpdate | None = None
    ) -> AgentToolResult:
        async with self.workspace.turn(*paths_of(self.tool.name, params)):  # what is kept is what the call finds
            return await self._watched(call_id, params, signal, on_update)

    async def _watched(
        self, call_id: str, params: dict[str, Any], signal: AbortSignal | None, on_update: OnUpdate | None
    ) -> AgentToolResult:
        store = self.checkpoints.store
        if store is None:
            return await _run(self.tool, call_id, params, signal, on_update)
        begun = await asyncio.to_thread(self._before, store, call_id, params)
        try:
            result = await _run(self.tool, call_id, params, signal, on_update)
        except BaseException:  # also when it is killed: what it did before counts
            self._after(store, begun)
            raise
        done = await asyncio.to_thread(self._after, store, begun)
        return result if done is None else _noted(result, checkpoint_id=done.id, checkpoint_kind="filesystem")

    def _before(self, store: "CheckpointStore", call_id: str, params: dict[str, Any]) -> "Checkpoint":
        """Keep every file the call may touch.

        Raises:
            ToolError: One of them cannot be kept; the tool must not run.
        """
        from coding_agent.checkpoints.records import FileChange
        from coding_agent.checkpoints.snapshot import NotKept, keep

        checkpoint = self.begun(store, "files", call_id)
        files: dict[str, FileChange] = {}
        try:
            for path in paths_of(self.tool.name, params):
                with self.workspace.guard.locate(path, tolerant=True) as place:
                    if not place.kernel and not place.is_dir:
                        files[place.real] = FileChange(place.real, keep(place, store))
            begun = evolve(checkpoint, files=tuple(files.values()))
            store.save(begun)
        except ToolError:
            return checkpoint  # the path leads nowhere: the tool says so better
        except (NotKept, OSError) as error:
            raise ToolError(
                f"Nothing was changed, because no checkpoint could be made first: {error}. "
                "Use another way, such as a command, if it must be changed"
            ) from error
        return begun

    def _after(self, store: "CheckpointStore", begun: "Checkpoint") -> "Checkpoint | None":
        """Complete it; None when nothing was changed. If that cannot be written, the first version stays: enough."""
        from coding_agent.checkpoints.snapshot import look

        files = []
        for one in begun.files:
            state, version = look(self.workspace.guard, one.path)
            ours = state is not None and self.workspace.seen.get(one.path) == version
            files.append(evolve(one, after=state if ours or state == one.before else None))
        try:
            if all(one.after == one.before for one in files):
                store.drop(begun)
                return None
            done = begun.with_files(tuple(files), store.next_settled())
            store.save(done)
            store.prune()
        except OSError:
            return begun
        return done


class _Commands(_Watch):
    """A tool that may change anything."""

    async def execute(
        self, call_id: str, params: dict[str, Any], signal: AbortSignal | None = None, on_update: OnUpdate | None = None
    ) -> AgentToolResult:
        store = self.checkpoints.store
        if store is None:
            return await _run(self.tool, call_id, params, signal, on_update)
        begun = await asyncio.to_thread(self._before, store, call_id)
        try:
            result = await _run(self.tool, call_id, params, signal, on_update)
        except BaseException:
            self._after(store, begun)
            raise
        done = await asyncio.to_thread(self._after, store, begun)
        if done is None:
            return result
        shown = [self._shown(one.path) for one in done.files]
        return _noted(result, changed_files=shown, changed_files_complete=not done.partial)

    def _before(self, store: "CheckpointStore", call_id: str) -> "tuple[Checkpoint, int] | None":
        """Note that a command begins; the time of the note is the file system's own."""
        checkpoint = self.begun(store, "shell", call_id)
        try:
            return checkpoint, store.save(checkpoint).stat().st_ctime_ns
        except OSError:
            return None

    def _after(self, store: "CheckpointStore", begun: "tuple[Checkpoint, int] | None") -> "Checkpoint | None":
        if begun is None:
            return None
        from coding_agent.checkpoints.records import FileChange
        from coding_agent.checkpoints.shell_changes import changed_since

        checkpoint, moment_ns = begun
        own = str(store.folder)
        changes = changed_since(self.workspace.root, moment_ns)
        files = tuple(FileChange(path, None) for path in changes.paths if not f"{path}/".startswith(f"{own}/"))
        try:
            if not files and changes.complete:
                store.drop(checkpoint)
                return None
            done = checkpoint.with_files(files, store.next_settled(), partial=not changes.complete)
            store.save(done)
        except OSError:
            return None
        return done

    def _shown(self, path: str) -> str:
        slash = "/" if path.endswith("/") else ""
        return self.workspace.guard.shown(path.rstrip("/")) + slash


async def _run(
    tool: AgentTool, call_id: str, params: dict[str, Any], signal: AbortSignal | None, on_update: OnUpdate | None
) -> AgentToolResult:
    result: Any = tool.execute(call_id, params, signal, on_update)
    if asyncio.iscoroutine(result):
        result = await result
    assert isinstance(result, AgentToolResult)
    return result


def _noted(result: AgentToolResult, **notes: Any) -> AgentToolResult:
    details = result.details if isinstance(result.details, dict) else {}
    return evolve(result, details={**details, **notes})


def paths_of(tool: str, params: Mapping[str, Any]) -> list[str]:
    """The paths a call will change, as given."""
    if tool != "patch":
        path = params.get("path")
        return [path] if isinstance(path, str) and path else []
    from coding_agent.tools.patch_files import paths_in

    return paths_in(str(params.get("patch_text") or ""))
