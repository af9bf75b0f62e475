"""Edge. Prompts from the command line, one after the other, and the last answer.

The answer goes to standard output, progress and notices to standard error. With `--json` every session event is one
line on standard output instead, behind a header line.
"""

import json
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from attrs import define, evolve, field

from coding_agent import client
from coding_agent.arguments import Arguments
from coding_agent.errors import BadUsage, SessionCrashed, TurnFailed
from coding_agent.events import ExtensionFailed, PermissionDecided, SessionEvent, Settled, StorageFailed
from coding_agent.hosting.command_line import Prompted
from coding_agent.hosting.host_parts import Wanted
from coding_agent.hosting.options import first_file, options_for
from coding_agent.hosting.required_credential import require_credential
from coding_agent.hosting.running import WATCHDOG_S, HostRun, Interrupted, run_host
from coding_agent.mcp.at_start import ONLY_PROMPT_S, servers_settled, typed_for_servers
from coding_agent.models.model_choice import ModelChoice
from coding_agent.safety import gate_for, safety_of
from coding_agent.session.options import SessionOptions
from coding_agent.session.protocol import SessionState, model_name
from coding_agent.session_supervisor import start_session
from coding_agent.telling_argument import telling_argument
from coding_agent.tools.visible_text import plain
from coding_agent.wire import header_to_wire
from lemon_agent import MessageEnd, ToolExecutionEnd, ToolExecutionStart
from lemon_ai import AssistantMessage, get_text, redact
from lemon_otp import CallFailed, Down, Pid, ReceiveTimeout, monitor, reason_words, receive, self_pid, whereis

if TYPE_CHECKING:
    from coding_agent.rpc.events import EventWriter

LOOK_AGAIN_S: Final = 0.2
EXIT_CODES: Final = {"completed": 0, "stopped": 0, "aborted": 130, "error": 1, "budget": 1}


@define
class Printer:
    """Turns the events of a run into lines for a person or a program, and remembers the answer."""

    arguments: Arguments
    choice: ModelChoice
    notices: tuple[str, ...] = ()
    answer: AssistantMessage | None = None
    settled: Settled | None = None
    _waits_for: int = 0
    _labels: dict[str, str] = field(factory=dict)
    _writer: "EventWriter | None" = None

    def begin(self, state: SessionState) -> None:
        """Print what there is to say before the run."""
        if self.arguments.json:
            print(json.dumps(header_to_wire(state), ensure_ascii=False), flush=True)
        if self.choice.notice and state.model == model_name(self.choice.model):
            self._progress(self.choice.notice)
        for notice in self.notices:
            if notice != self.choice.notice:
                self._progress(notice)
        if state.restored is not None:
            closed = state.restored.repaired_calls
            note = f", {closed} unfinished tool calls closed" if closed else ""
            self._progress(f"going on after {state.restored.message_count} messages{note}")
            for problem in state.restored.problems:
                self._progress(f"session file: {problem}")

    def warn(self, lines: Iterable[str]) -> None:
        """Print what a person should know."""
        for line in lines:
            self._progress(line)

    def begin_prompt(self) -> None:
        """Forget how the prompt before this one ended."""
        self.settled, self.answer, self._waits_for = None, None, 0

    def tell_of_subagents(self, count: int) -> None:
        """Say for how many subagents is waited, when that has changed."""
        if count not in (0, self._waits_for):
            self._progress(f"waiting for {count} {'subagent' if count == 1 else 'subagents'}")
        self._waits_for = count

    def take(self, event: SessionEvent) -> None:
        """Print what this event calls for."""
        if self.arguments.json:
            self._print_json(event)
        match event.event:
            case MessageEnd(AssistantMessage() as message):
                self.answer = message
            case Settled() as settled:
                self.settled = settled
            case ToolExecutionStart(tool_call_id, name, args):
                self._labels[tool_call_id] = f"{name} {_shown_argument(args)}".strip()
                self._progress(f"→ {self._labels[tool_call_id]}")
            case ToolExecutionEnd(tool_call_id, name, _, is_error):
                self._progress(f"{'✗' if is_error else '✓'} {self._labels.pop(tool_call_id, name)}")
            case PermissionDecided(decision="denied", reason=reason):
                self._progress(f"! not allowed: {reason}")
            case ExtensionFailed(path, name, error):
                self._progress(f"! extension {path}: {name}: {error}")
            case StorageFailed(message, unsaved):
                what = "entry is" if unsaved == 1 else "entries are"
                waiting = f"{unsaved} {what} not stored yet: " if unsaved else ""
                print(f"warning: {waiting}{message}", file=sys.stderr)

    def _print_json(self, event: SessionEvent) -> None:
        """The event as clients of the protocol are told it, and what goes on inside."""
        if self._writer is None:
            from coding_agent.rpc.events import EventWriter

            self._writer = EventWriter(deltas=not self.arguments.partials, inner=True)
        for message in self._writer.messages(event):
            print(json.dumps(message, ensure_ascii=False), flush=True)

    @property
    def went_well(self) -> bool:
        """Did the last run end so that the next prompt makes sense?"""
        return self.settled is not None and EXIT_CODES.get(self.settled.outcome, 1) == 0

    def finish(self) -> int:
        """Print the answer, or why there is none, and say how the program ends."""
        settled, answer = self.settled, self.answer
        outcome = settled.outcome if settled else "error"
        text = get_text(answer) if answer is not None and answer.stop_reason != "error" else ""
        if text.strip() and not self.arguments.json:
            print(plain(text))
        if outcome in ("error", "budget"):
            reason = (answer.error_message if answer else None) or (settled.reason if settled else "the session ended")
            print(f"error: {reason}", file=sys.stderr)
        elif outcome == "aborted":
            print("interrupted; what there was is stored", file=sys.stderr)
        return EXIT_CODES.get(outcome, 1)

    def _progress(self, line: str) -> None:
        if not self.arguments.quiet and not self.arguments.json:
            print(plain(line), file=sys.stderr, flush=True)


def run_prompts(prompts: Sequence[Prompted], host: HostRun) -> int:
    """Run the prompts one after the other in a supervised session, print the last answer and return the exit code.

    Raises:
        CodingAgentError: The session could not be started; the message says what to do.
    """
    arguments = host.arguments
    safety = safety_of(host.settings)
    gate = gate_for(host.settings, safety, None)
    wanted = Wanted(file=first_file(host), resume=arguments.resume, first=True)

    async def body(host: HostRun) -> int:
        options = await options_for(host, wanted, safety, gate)
        # Nobody can follow up here, so a run that would end does not wait for one on its way.
        options = evolve(options, agent_settings={**options.agent_settings, "follow_up_window_ms": 0})
        return await _run(prompts, Printer(arguments, host.choice, tuple(host.notices)), options, host)

    return run_host(body, host, watchdog_s=WATCHDOG_S)


async def _run(prompts: Sequence[Prompted], printer: Printer, options: SessionOptions, host: HostRun) -> int:
    session = await start_session(options)
    if not printer.arguments.json:  # a program reads the same from the events of the run
        try:
            await require_credential(host, session)
        except BadUsage as error:
            raise TurnFailed(str(error)) from error
    if printer.arguments.name:
        await client.append_session_name(session, printer.arguments.name)
    printer.begin(await client.get_state(session))
    await client.subscribe(session, self_pid())
    monitor(session)
    interrupted = False
    for prompt in prompts:
        printer.begin_prompt()
        printer.warn(await servers_settled(options, ONLY_PROMPT_S))
        text, images = await typed_for_servers(options, prompt.text)
        await client.prompt(session, text, (*prompt.images, *images))
        interrupted = await _until_settled(session, printer)
        if interrupted and not printer.settled:  # asked twice to end at once
            return 130
        if not interrupted and printer.went_well:
            interrupted = await _until_quiet(session, options.session_id, printer)
        if interrupted or not printer.went_well:
            break
    if unsaved := await client.look(session, lambda store: store.unsaved):
        print(f"warning: {unsaved} entries of this session could not be stored and are lost", file=sys.stderr)
    code = printer.finish()
    return 130 if interrupted else code


def _crashed(reason: object) -> SessionCrashed:
    words = reason_words(reason)
    return SessionCrashed(f"the session process ended: {words}; what it had said is stored, try --continue")


async def _until_settled(session: Pid, printer: Printer) -> bool:
    """Print what happens until the run is over; whether a person interrupted it."""
    interrupted = False
    while printer.settled is None:
        match await receive():
            case Down(process=pid, reason=reason) if pid == session:
                raise _crashed(reason)
            case SessionEvent() as event:
                printer.take(event)
            case Interrupted() if interrupted:
                return True
            case Interrupted():
                interrupted = True
                client.abort_async(session)
            case _:
                pass
    return interrupted


async def _until_quiet(session: Pid, session_id: str, printer: Printer) -> bool:
    """Wait for subagents that a run has left at work, and for the runs that their news starts.

    Returns:
        Whether a person interrupted it.
    """
    while printer.went_well:
        left = await _at_work(session_id)
        if not left and (await client.get_state(session)).phase == "idle":
            await _print_rest(printer)
            return False
        printer.tell_of_subagents(left)
        try:
            message = await receive(timeout_s=LOOK_AGAIN_S)
        except ReceiveTimeout:
            continue
        match message:
            case Down(process=pid, reason=reason) if pid == session:
                raise _crashed(reason)
            case SessionEvent() as event:
                printer.take(event)
            case Interrupted():
                return True
            case _:
                pass
    return False


async def _print_rest(printer: Printer) -> None:
    """Print what the session has said already."""
    while True:
        try:
            printer.take(await receive(lambda message: isinstance(message, SessionEvent), timeout_s=0))
        except ReceiveTimeout:
            return


async def _at_work(session_id: str) -> int:
    """How many subagents of the session are at work."""
    name = f"coordinator[{session_id}]"
    if whereis(name) is None:
        return 0
    from coding_agent.coordinator import Coordinator

    try:
        return len(await Coordinator.list_active(name))
    except CallFailed:  # it has just ended
        return 0


def _shown_argument(args: Any) -> str:
    """The argument that says most about a call, on one short line without credentials."""
    line = redact(next(iter(telling_argument(args).strip().splitlines()), ""))
    return line if len(line) <= 80 else line[:79] + "…"
