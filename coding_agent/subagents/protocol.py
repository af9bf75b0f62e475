"""Values. What a coordinator is asked, and what comes of a subagent.

A refusal is answered with the `CodingAgentError` that says why; `coordinator` raises it in the caller.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from attrs import field

from coding_agent.subagents.definitions import Definitions
from coding_agent.subagents.tool_policy import ToolPolicy
from lemon_agent import AgentTool
from lemon_otp import Pid, Request, frozen

if TYPE_CHECKING:
    from coding_agent.session.budget import Budget

Status: TypeAlias = Literal["completed", "error", "timeout", "aborted"]
"""How a subagent ended."""

Until: TypeAlias = Literal["all", "first"]
"""Wait for every subagent, or for the first that completes and stop the others."""

JoinMode: TypeAlias = Literal["wait_all", "wait_any"]

Delivery: TypeAlias = Literal["follow_up", "steer"]
"""When the parent's model hears of something that happened meanwhile; when the parent is idle, at once."""

DEFAULT_TIMEOUT_MS = 300_000


@frozen(kw_only=True)
class SubagentSpec:
    """One subagent to run.

    Attributes:
        prompt: What it is to do; it sees nothing of the parent's conversation.
        subagent: The name of its definition; None for a plain one.
        description: A few words for lists.
        model: `provider/model`; before the definition's and the parent's.
        thinking_level: The same for the level.
        tools: The tools it may have, of those the definition allows.
        tool_policy: What it has of those, and must ask about.
        cwd: A folder below the parent's where it works; None for the parent's.
        timeout_ms: Its own deadline, beside that of the call.
        budget: Limits of its own, within the parent's.
    """

    prompt: str
    subagent: str | None = None
    description: str = ""
    model: str | None = None
    thinking_level: str | None = None
    tools: tuple[str, ...] | None = None
    tool_policy: ToolPolicy | None = None
    cwd: str | None = None
    timeout_ms: int | None = None
    budget: Budget | None = None


@frozen
class SubagentResult:
    """What came of one subagent.

    Attributes:
        id: Of its run.
        result: Its last words; for one that did not complete, whatever it had said.
        error: None when it completed; `timeout`, `aborted`, or what went wrong.
        session_id: Of its session, where there was one.
        session_file: Where its conversation is stored.
    """

    id: str
    status: Status
    result: str = ""
    error: Any = None
    session_id: str | None = None
    session_file: str | None = None


@frozen(kw_only=True)
class CoordinatorOptions:
    """What a coordinator is started with.

    Attributes:
        session: The parent; the coordinator ends with it.
        session_id: Of the parent; its subagents are `(session_id, role, index)` in the agent registry.
        definitions: Reads the definitions that hold; asked for each run, so that a file edited meanwhile counts.
        default_timeout_ms: For a call that names none; None for no deadline.
        seat: The process that holds the parent's seat in a lane, when it has one.
        depth: How many more floors of subagents may stand below; 1 lets no subagent start others.
        child_tools: Makes the `session_tools` of a subagent; given its run id and this coordinator.
    """

    session: Pid
    session_id: str
    definitions: Callable[[Path], Definitions]
    child_tools: Callable[[ChildPlace], tuple[Callable[[Pid], AgentTool], ...]] = field(repr=False)
    default_timeout_ms: int | None = DEFAULT_TIMEOUT_MS
    seat: Pid | None = None
    depth: int = 1


@frozen
class ChildPlace:
    """Where a subagent stands: its run and session, who coordinates it, what holds its seat, and how deep it is."""

    run_id: str
    session_id: str
    cwd: Path
    coordinator: Pid
    seat: Pid
    depth: int


# Asked.


@frozen
class RunSubagents(Request[tuple[SubagentResult, ...]]):
    """Run these side by side; answered with a result for each, in this order. `watcher` gets `Progress`."""

    specs: tuple[SubagentSpec, ...]
    timeout_ms: int | None = None
    until: Until = "all"
    watcher: Pid | None = None


@frozen
class Progress:
    """Sent to whoever watches a call: the tool call that a subagent is at, None when it is at none."""

    run_id: str
    action: str | None


@frozen
class RunInBackground(Request[str]):
    """Run this one and answer with its id at once; the parent hears of its end, unless `tell` is false."""

    spec: SubagentSpec
    delivery: Delivery = "follow_up"
    tell: bool = True


@frozen
class Join(Request[tuple["RunView", ...]]):
    """Answered when these have ended, or one of them; the parent then does not hear of them in another way."""

    ids: tuple[str, ...]
    mode: JoinMode = "wait_all"


@frozen
class ViewRuns(Request[tuple["RunView", ...]]):
    """How runs stand: those named, or all."""

    ids: tuple[str, ...] | None = None


@frozen
class GetSession(Request[Pid]):
    """The session whose subagents these are."""


@frozen
class ListActive(Request[tuple[str, ...]]):
    """The ids of the subagents that are at work."""


@frozen
class AbortAll(Request[None]):
    """Stop every subagent; answered when none is at work."""


@frozen
class StopOne(Request["RunView"]):
    """Stop one subagent; answered when it has ended."""

    run_id: str


@frozen
class SteerOne(Request[None]):
    """Give one subagent's model this text before its next call."""

    run_id: str
    text: str


@frozen
class AskParent(Request["Answer"]):
    """A subagent asks its parent; answered when the parent has, or time is up."""

    run_id: str
    question: str
    timeout_ms: int = DEFAULT_TIMEOUT_MS


@frozen
class AnswerChild(Request[None]):
    """The parent's answer to the open question of one subagent."""

    run_id: str
    text: str


@frozen
class Answer:
    """What became of a question; `text` is the answer, or why there is none."""

    outcome: Literal["answered", "timed_out", "already_waiting", "nobody_listens"]
    text: str


@frozen
class RunView:
    """How one run stands.

    Attributes:
        status: `queued` while it waits for a seat, `running`, `stopping`, or how it ended.
        current_action: The tool call it is at, while it is.
        question: What it asks its parent, while it does.
        result: There once it has ended.
    """

    id: str
    status: str
    subagent: str | None
    description: str
    background: bool
    session_id: str | None = None
    session_file: str | None = None
    current_action: str | None = None
    question: str | None = None
    result: SubagentResult | None = None
