"""Edge. The tool `checkpoint`: what files were like before the session's tools changed them, to look at and put back.

A file is put back only when it is as a tool of this session left it: what somebody else did since is never undone.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from coding_agent.checkpoints.guarded_tools import Checkpoints
from coding_agent.checkpoints.plan import Plan, Step, plan_restore
from coding_agent.checkpoints.records import Checkpoint
from coding_agent.checkpoints.restore import described, difference, rewind_files
from coding_agent.checkpoints.snapshot import look
from coding_agent.checkpoints.store import CheckpointStore
from coding_agent.storage.stamps import iso
from coding_agent.tools.arguments import optional_texts, required_text
from coding_agent.tools.truncate import clip_around
from coding_agent.tools.workspace import Workspace
from lemon_agent import AbortSignal, AgentTool, AgentToolResult, OnUpdate, ToolError, check_abort, text_result

SHOWN_MAX: Final = 20
DIFF_CHARACTERS: Final = 20_000
ACTIONS: Final = ("list", "diff", "restore", "delete")

PARAMETERS: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "action": {"type": "string", "enum": list(ACTIONS), "description": "What to do."},
        "checkpoint_id": {"type": "string", "description": "diff, restore, delete: which one, as list names it."},
        "paths": {
            "type": "array",
            "items": {"type": "string"},
            "description": "diff, restore: only these of its files; all of them if not given.",
        },
    },
    "required": ["action"],
}

DESCRIPTION: Final = (
    "What files were like before your tools changed them. list shows the newest checkpoints, diff what putting the "
    "files of one back would change, restore does it, delete forgets one. A file that somebody else changed since "
    "stays as it is."
)


def checkpoint_tool(workspace: Workspace, checkpoints: Checkpoints) -> AgentTool:
    """The tool `checkpoint` of sessions whose changing tools keep their checkpoints there."""
    desk = _Desk(workspace, checkpoints)

    async def execute(
        _id: str, params: dict[str, Any], signal: AbortSignal | None = None, _on_update: OnUpdate | None = None
    ) -> AgentToolResult:
        check_abort(signal)
        action = required_text(params, "action", "action is required")
        work = desk.actions.get(action)
        if work is None:
            raise ToolError(f"Unknown action: {action}; it can be {', '.join(ACTIONS)}")
        return await work(params)

    return AgentTool(
        name="checkpoint",
        label="Checkpoint",
        description=DESCRIPTION,
        parameters=PARAMETERS,
        execute=execute,
        main_argument="checkpoint_id",
    )


class _Desk:
    def __init__(self, workspace: Workspace, checkpoints: Checkpoints) -> None:
        self._workspace = workspace
        self._checkpoints = checkpoints
        self.actions: Mapping[str, Callable[[dict[str, Any]], Awaitable[AgentToolResult]]] = {
            "list": self._list,
            "diff": self._diff,
            "restore": self._restore,
            "delete": self._delete,
        }

    async def _list(self, _params: dict[str, Any]) -> AgentToolResult:
        every = await asyncio.to_thread(self._store().all)
        kept = [one for one in every if one.kind != "shell"][::-1]
        lines = [self._line(one) for one in kept[:SHOWN_MAX]]
        if len(kept) > SHOWN_MAX:
            lines.append(f"and {len(kept) - SHOWN_MAX} older ones")
        facts = [{"checkpoint_id": one.id, "tool": one.tool, "files": self._shown(one)} for one in kept[:SHOWN_MAX]]
        return text_result("\n".join(lines) or "No checkpoints.", {"checkpoints": facts})

    async def _diff(self, params: dict[str, Any]) -> AgentToolResult:
        store, checkpoint, todo = await asyncio.to_thread(self._planned, params)
        parts = [await asyncio.to_thread(self._part, store, step) for step in todo.steps]
        text = clip_around("\n".join(parts), DIFF_CHARACTERS // 2, DIFF_CHARACTERS // 2, DIFF_CHARACTERS)
        return text_result(text or "Nothing would change.", {"checkpoint_id": checkpoint.id})

    async def _restore(self, params: dict[str, Any]) -> AgentToolResult:
        store, checkpoint, todo = await asyncio.to_thread(self._planned, params)
        guard = self._workspace.guard
        async with self._workspace.turn(*(step.path for step in todo.steps)):
            outcome = await asyncio.to_thread(rewind_files, store, guard, todo)
            for step in outcome.done:
                _, version = await asyncio.to_thread(look, guard, step.path)
                self._workspace.saw(step.path, version)
        lines = [f"done: {line}" for line in described(outcome.done, guard)]
        lines += [f"left alone: {guard.shown(step.path)}: {why}" for step, why in outcome.failed]
        if outcome.failed and not outcome.done:
            raise ToolError("\n".join(lines))
        facts = {"checkpoint_id": checkpoint.id, "restored": [guard.shown(step.path) for step in outcome.done]}
        return text_result("\n".join(lines) or "Every file is as it was.", facts)

    async def _delete(self, params: dict[str, Any]) -> AgentToolResult:
        store = self._store()
        checkpoint = await asyncio.to_thread(self._named, store, params)
        await asyncio.to_thread(store.drop, checkpoint)
        return text_result(f"{checkpoint.id} is forgotten.", {"checkpoint_id": checkpoint.id})

    # What is asked about.

    def _store(self) -> CheckpointStore:
        if self._checkpoints.store is None:
            raise ToolError("No checkpoints are kept here")
        return self._checkpoints.store

    def _named(self, store: CheckpointStore, params: dict[str, Any]) -> Checkpoint:
        wanted = required_text(params, "checkpoint_id", f"checkpoint_id is required for {params.get('action')}")
        found = next((one for one in store.all() if one.id == wanted), None)
        if found is None:
            raise ToolError(f"There is no checkpoint {wanted}; list shows them")
        if found.kind == "shell":
            raise ToolError(f"not_filesystem_checkpoint: {wanted} says what a command changed, and holds no files")
        return found

    def _planned(self, params: dict[str, Any]) -> tuple[CheckpointStore, Checkpoint, Plan]:
        store = self._store()
        checkpoint = self._named(store, params)
        paths = self._chosen(checkpoint, optional_texts(params, "paths"))
        guard = self._workspace.guard
        todo = plan_restore(store.all(), checkpoint, paths, lambda path: look(guard, path)[0], store.has)
        return store, checkpoint, todo

    def _chosen(self, checkpoint: Checkpoint, wanted: Sequence[str] | None) -> frozenset[str]:
        held = {one.path for one in checkpoint.files}
        if wanted is None:
            return frozenset(held)
        found = set()
        for path in wanted:
            with self._workspace.guard.locate(path, tolerant=True) as place:
                if place.real not in held:
                    raise ToolError(f"path_not_in_checkpoint: {path} is none of {', '.join(self._shown(checkpoint))}")
                found.add(place.real)
        return frozenset(found)

    # What is shown.

    def _shown(self, checkpoint: Checkpoint) -> list[str]:
        return [self._workspace.guard.shown(one.path) for one in checkpoint.files]

    def _line(self, checkpoint: Checkpoint) -> str:
        files = ", ".join(self._shown(checkpoint)) or "no file"
        return f"{checkpoint.id}  {iso(checkpoint.at_ms)}  before {checkpoint.tool}: {files}"

    def _part(self, store: CheckpointStore, step: Step) -> str:
        """What becomes of one file; its words only where they may be read."""
        guard = self._workspace.guard
        shown = guard.shown(step.path)
        if step.what == "conflict":
            return f"{shown}: stays as it is: {step.why}"
        if step.what == "nothing":
            return f"{shown}: is as it was"
        hides = None if self._workspace.conceals is None else self._workspace.conceals("read", ".", guard.root)
        if hides is not None and hides(shown, step.path):
            return f"{described([step], guard)[0]} (it may not be shown)"
        return f"{described([step], guard)[0]}\n{difference(store, guard, step)}".rstrip()
