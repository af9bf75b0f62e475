"""Edge. Stands before every tool call: asks the policy, then perhaps a person, and answers whether the call may run.

Emits: `PermissionAsked` and `PermissionDecided` to the session whose call it is; telemetry
       ("coding_agent", "permission", "asked" | "decided"), without the arguments.

Everything that goes wrong here is a no. A call the policy leaves open waits for its answer; the wait ends with the run.
"""

import asyncio
import hashlib
import itertools
import json
import os
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from attrs import evolve

from coding_agent.events import PermissionAsked, PermissionDecided
from coding_agent.tool_kinds import CHANGES_FILES, LOOKS_AT_FILES
from lemon_agent import AbortSignal, BeforeToolCall, Block
from lemon_ai import redact
from lemon_otp import Pid, at_exit, telemetry, wall_ms

if TYPE_CHECKING:
    from coding_agent.permissions.actions import ToolUse
    from coding_agent.permissions.approver import Approver, PermissionAnswer, PermissionRequest
    from coding_agent.permissions.policy import Judgement, Policy
    from coding_agent.permissions.remembered import RememberedRules
    from coding_agent.permissions.rules import Rule
    from coding_agent.tools import Workspace
    from coding_agent.tools.paths import AccessRequest, PathGuard, Purpose

Tell = Callable[[PermissionAsked | PermissionDecided], None]

SUBJECT_MAX: Final = 120
_ids: Final = itertools.count(1)


class _Call:
    """A tool call that is judged."""

    def __init__(self, tool: str, call_id: str, args: dict[str, Any], use: "ToolUse", tell: Tell | None) -> None:
        self.tool = tool
        self.id = call_id
        self.args = args
        self.use = use
        self.tell = tell

    @property
    def subject(self) -> str:
        return short(self.tool, self.use)

    def say(self, notice: PermissionAsked | PermissionDecided) -> None:
        if self.tell is not None:
            self.tell(notice)


class PermissionGate:
    """The gate of a session and of its subagents: a companion of `SessionOptions`, and `approve` of their path guard.

    Attributes:
        policy: The mode and the rules; may be replaced while a session runs, for the calls to come.
    """

    def __init__(
        self,
        policy: "Policy | None",
        *,
        approver: "Approver | None" = None,
        remembered: "RememberedRules | None" = None,
    ) -> None:
        """Args:
        policy: What holds from the start; None lets everything run that the path guard lets through.
        approver: Asks a person; None means that nobody is there, and the answer to every question is no.
        remembered: Where "always" is kept; without it, it holds as long as this gate.
        """
        self.policy = policy
        self._approver = approver
        self._remembered = remembered
        self._guard: PathGuard | None = None
        self._granted: Counter[tuple[str, Purpose]] = Counter()
        self._always: dict[Pid, frozenset[str]] = {}
        self._loaded = False

    @property
    def asks(self) -> bool:
        """Can it ever say yes to a path guard? When not, the guard had better say itself that nobody is there."""
        return self._approver is not None or self.policy is not None

    def join(self, session: Pid, _file: Path, tell: Tell) -> Mapping[str, Any]:
        """Go along with a session: its calls are judged, and it is told what is asked and decided about them."""
        return {"before_tool_call": partial(self.before_tool_call, tell=tell, session=session)}

    def ask_always(self, session: Pid, tools: frozenset[str]) -> None:
        """Ask about every call of these tools that one session makes, also where the policy lets them run."""

        def forget(_pid: Pid, _reason: Any) -> None:
            self._always.pop(session, None)

        self._always[session] = tools
        at_exit(session, forget)

    async def remembered_rules(self) -> "tuple[Rule, ...]":
        """What somebody chose to keep for this folder."""
        return () if self._remembered is None else await asyncio.to_thread(self._remembered.rules)

    def watch(self, workspace: "Workspace") -> None:
        """Judge paths as this workspace sees them, and what its tools come to on the web."""
        self._guard = workspace.guard
        workspace.permit_url = self.permit_url
        workspace.conceals = self.conceals

    async def before_tool_call(
        self, told: BeforeToolCall, _signal: AbortSignal, *, tell: Tell | None = None, session: Pid | None = None
    ) -> Block | None:
        """None lets the call run; `Block` says why not. Cancelling means no."""
        name = told.tool_call.name.strip()
        must_ask = session is not None and name in self._always.get(session, ())
        return await self._judged(name, told.tool_call.id, told.args, tell, must_ask=must_ask)

    async def decide(self, name: str, request_id: str, args: Mapping[str, Any]) -> str | None:
        """Why something that is no tool call of the model's may not be done; None when it may. Asked about as one is.

        Args:
            name: What rules call it.
            request_id: Names this one request; empty when nobody else knows of it.
            args: What it is about, to be shown whole.
        """
        refused = await self._judged(name, request_id, args, None)
        return None if refused is None else refused.reason or "it is not allowed"

    async def _judged(
        self, tool: str, call_id: str, args: Mapping[str, Any], tell: Tell | None, *, must_ask: bool = False
    ) -> Block | None:
        if not must_ask and self._waves_through(tool):
            self._count(tool, call_id, "allowed", "mode")
            return None
        if self.policy is None:
            from coding_agent.permissions.policy import Policy

            self.policy = Policy("full")
        if not self._loaded and self._remembered is not None:
            self.policy = self.policy.with_rules(await asyncio.to_thread(self._remembered.rules))
            self._loaded = True
        from coding_agent.permissions.actions import tool_use

        use = await asyncio.to_thread(tool_use, tool, args, self._paths())
        call = _Call(tool, call_id, dict(args), use, tell)
        judgement = self.policy.judge(use.actions)
        if must_ask and judgement.verdict == "allow":
            judgement = evolve(judgement, verdict="ask", reason=f"this subagent must ask before each {tool}")
        if judgement.verdict == "allow":
            self._grant(use)
            self._count(tool, call_id, "allowed", "rule" if judgement.rule else "mode")
            return None
        if judgement.verdict == "deny":
            return self._refuse(call, "rule" if judgement.rule else "mode", judgement.reason)
        if self._approver is None:
            return self._refuse(call, "nobody", f"{judgement.reason}; nobody is there to allow it")
        return await self._ask(call, judgement)

    def _waves_through(self, tool: str) -> bool:
        if self.policy is None:
            return self._approver is None or not _names_a_file(tool)
        return self.policy.allows_all(tool) and not _names_a_file(tool)

    async def approve_path(self, request: "AccessRequest") -> bool:
        """The answer to a path guard: yes for what was decided with the call, else what a person says."""
        key = (request.path, request.purpose)
        if self._granted[key] > 0:
            self._granted[key] -= 1
            return True
        if self._approver is None:
            return False
        shown = f"{request.purpose} {request.path}"
        answer = await self._answer(self._request("", "path", {"path": request.path}, shown, request.reason))
        return answer is not None and answer.choice != "deny"

    def conceals(self, tool: str, shown: str, real: str) -> "Callable[[str, str], bool] | None":
        """What of the files below a folder must stay out of a search that was allowed there; None when nothing must.

        Args:
            tool: What searches.
            shown: The folder, as `FileAccess` has it; so is the file the answer is asked about.
            real: The same, absolute.
        """
        if self.policy is None or not self.policy.restricts(tool):
            return None
        from coding_agent.permissions.rules import match_path

        rules = [rule for rule in self.policy.rules if rule.kind != "allow" and rule.names(tool)]
        here = [rule for rule in rules if not match_path(rule, shown, real)]  # the others let the search itself be
        return lambda file_shown, file_real: any(match_path(rule, file_shown, file_real) for rule in here)

    async def permit_url(self, tool: str, url: str, *, ask: bool = True) -> str | None:
        """Why a tool may not go where a redirect or a link has led it; None when it may.

        Args:
            tool: Whose call it is; that call itself was allowed.
            url: Where it would go now.
            ask: What the policy leaves open is asked about; without it that may be done.
        """
        if self.policy is None:
            return None
        from coding_agent.permissions.policy import Fetch

        judgement = self.policy.judge((Fetch(tool, url),))
        if judgement.verdict == "allow" or (judgement.verdict == "ask" and not ask):
            return None
        if judgement.verdict == "deny":
            self._count(tool, "", "denied", "rule" if judgement.rule else "mode")
            return redact(judgement.reason)
        if self._approver is None:
            self._count(tool, "", "denied", "nobody")
            return f"{redact(judgement.reason)}; nobody is there to allow it"
        shown = f"{tool} was led to: {url}"
        request = self._request("", tool, {"url": url}, shown, judgement.reason, judgement.needs)
        answer = await self._answer(request)
        refused = answer is None or answer.choice == "deny"
        self._count(tool, "", "denied" if refused else "allowed", "user")
        if answer is None or refused:
            return f"{redact(judgement.reason)}: the user said no"
        if answer.choice == "always" and request.rules:
            await self._remember(request)
        return None

    # One question.

    async def _ask(self, call: "_Call", judgement: "Judgement") -> Block | None:
        request = self._request(call.id, call.tool, call.args, call.use.shown, judgement.reason, judgement.needs)
        call.say(PermissionAsked(request.id, call.id, call.tool, call.subject, redact(judgement.reason)))
        telemetry.execute(
            ("coding_agent", "permission", "asked"),
            {"system_time": wall_ms()},
            {"tool_name": call.tool, "tool_call_id": call.id},
        )
        try:
            answer = await self._answer(request)
        except asyncio.CancelledError:
            self._decided(call, request.id, "cancelled", "nobody", "the run was ended")
            raise
        if answer is None or answer.choice == "deny":
            note = "nobody could answer" if answer is None else answer.note or "the user said no"
            self._decided(call, request.id, "denied", "user", note)
            return Block(f"Not allowed: {judgement.reason}. {note[:1].upper()}{note[1:]}; the call was not run.")
        if answer.choice == "always" and request.rules:
            await self._remember(request)
        self._grant(call.use)
        self._decided(call, request.id, "allowed", "user", answer.choice)
        return None

    async def _answer(self, request: "PermissionRequest") -> "PermissionAnswer | None":
        """What the person said; None when nobody could, or said it about something else."""
        from coding_agent.permissions.approver import PermissionAnswer

        assert self._approver is not None
        try:
            answer: object = await self._approver.ask(request)
        except Exception:
            return None
        if not isinstance(answer, PermissionAnswer) or answer.seal != request.seal:
            return None
        return answer if answer.choice in ("once", "always", "deny") else None

    async def _remember(self, request: "PermissionRequest") -> None:
        assert self.policy is not None
        self.policy = self.policy.with_rules(request.rules)
        if self._remembered is not None:
            await asyncio.to_thread(self._remembered.add, request.rules)

    def _request(
        self, call_id: str, tool: str, args: Mapping[str, Any], shown: str, reason: str, rules: Any = ()
    ) -> "PermissionRequest":
        from coding_agent.permissions.approver import PermissionRequest

        return PermissionRequest(
            id=f"p{next(_ids)}",
            seal=seal(tool, args, self._paths().root),
            tool_call_id=call_id,
            tool_name=tool,
            shown=shown,
            reason=reason,
            rules=tuple(rules),
        )

    def _paths(self) -> "PathGuard":
        if self._guard is None:
            from coding_agent.tools.paths import PathGuard

            self._guard = PathGuard(os.getcwd())
        return self._guard

    def _grant(self, use: "ToolUse") -> None:
        """What is allowed here need not be asked again by the path guard."""
        self._granted.update(use.asks_guard)

    # What is told.

    def _refuse(self, call: "_Call", by: str, reason: str) -> Block:
        self._decided(call, f"p{next(_ids)}", "denied", by, reason)
        return Block(f"Not allowed: {reason}. The call was not run.")

    def _decided(self, call: "_Call", request_id: str, decision: str, by: str, reason: str) -> None:
        call.say(PermissionDecided(request_id, call.id, call.tool, call.subject, decision, by, redact(reason)))
        self._count(call.tool, call.id, decision, by)

    def _count(self, tool: str, call_id: str, decision: str, by: str) -> None:
        telemetry.execute(
            ("coding_agent", "permission", "decided"),
            {"system_time": wall_ms()},
            {
                "tool_name": tool,
                "tool_call_id": call_id,
                "decision": decision,
                "by": by,
                "mode": self.policy.mode if self.policy else "full",
            },
        )


def _names_a_file(tool: str) -> bool:
    """May the path guard ask about this tool? Then its question is put here, with the call."""
    return tool in LOOKS_AT_FILES or tool in CHANGES_FILES or tool == "web_download"


def seal(tool: str, args: Mapping[str, Any], folder: str) -> str:
    """Stands for a call in a folder; another call has another one."""
    text = json.dumps([tool, dict(args), folder], sort_keys=True, default=repr)
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def short(tool: str, use: "ToolUse") -> str:
    """A call in a few words that hold no secret: programs without their arguments, files, hosts."""
    from coding_agent.permissions.policy import Fetch, FileAccess, InShell
    from coding_agent.permissions.rules import host_of
    from coding_agent.permissions.shell_programs import program_name

    words: list[str] = []
    for action in use.actions:
        match action:
            case InShell(_, part):
                name = program_name(part.words[0]) if hasattr(part, "words") else None
                words.append(name or "?")
            case FileAccess(shown=path):
                words.append(path)
            case Fetch(_, url):
                words.append(host_of(url) or "?")
            case _:
                words.append(tool)
    text = redact(", ".join(dict.fromkeys(words)))
    return text if len(text) <= SUBJECT_MAX else text[: SUBJECT_MAX - 1] + "…"
