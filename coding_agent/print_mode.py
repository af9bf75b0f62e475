"""One prompt, one answer: start the tree, run, print, stop the tree.

The answer goes to standard output, progress and notices to standard error. With `--json` every session event is one
line on standard output instead, behind a header line.
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from attrs import define, evolve, field

from coding_agent import client
from coding_agent.application import APPLICATION, add_child
from coding_agent.arguments import Arguments
from coding_agent.control.listener import Listener
from coding_agent.errors import SessionCrashed, UnsafeRuntimeDir
from coding_agent.events import PermissionDecided, SessionEvent, Settled, StorageFailed
from coding_agent.metrics import METRICS, Metrics
from coding_agent.model_choice import ModelChoice, choose_model
from coding_agent.safety import safety_of
from coding_agent.session.options import SessionOptions
from coding_agent.session.protocol import SessionState, model_name
from coding_agent.session_supervisor import start_session
from coding_agent.settings import Settings
from coding_agent.starting import session_options
from coding_agent.tools.visible_text import plain
from coding_agent.user_models import UserModels, user_models
from coding_agent.wire import event_to_wire, header_to_wire
from lemon_agent import MessageEnd, ToolExecutionEnd, ToolExecutionStart
from lemon_ai import AssistantMessage, get_text, redact, use_catalog
from lemon_otp import (
    Down,
    Pid,
    StartFailed,
    ensure_all_started,
    monitor,
    put_env,
    receive,
    run,
    self_pid,
    send,
    stop_all,
)

EXIT_CODES: Final = {"completed": 0, "stopped": 0, "aborted": 130, "error": 1, "budget": 1}

WATCHDOG_S: Final = 1.0
"""Who holds the event loop for longer is named in the log file, with its stack."""


class Interrupted:
    """A signal arrived; sent to the process that waits for the run."""


@define
class Printer:
    """Turns the events of a run into lines for a person or a program, and remembers the answer."""

    arguments: Arguments
    choice: ModelChoice
    answer: AssistantMessage | None = None
    settled: Settled | None = None
    _labels: dict[str, str] = field(factory=dict)

    def begin(self, state: SessionState) -> None:
        """Print what there is to say before the run."""
        if self.arguments.json:
            print(json.dumps(header_to_wire(state), ensure_ascii=False), flush=True)
        if self.choice.notice and state.model == model_name(self.choice.model):
            self._progress(self.choice.notice)
        if state.restored is not None:
            closed = state.restored.repaired_calls
            note = f", {closed} unfinished tool calls closed" if closed else ""
            self._progress(f"going on after {state.restored.message_count} messages{note}")
            for problem in state.restored.problems:
                self._progress(f"session file: {problem}")

    def take(self, event: SessionEvent) -> None:
        """Print what this event calls for."""
        if self.arguments.json:
            print(json.dumps(event_to_wire(event, deltas=not self.arguments.partials), ensure_ascii=False), flush=True)
        match event.event:
            case MessageEnd(AssistantMessage() as message):
                self.answer = message
            case Settled() as settled:
                self.settled = settled
            case ToolExecutionStart(tool_call_id, name, args):
                self._labels[tool_call_id] = f"{name} {main_argument(args)}".strip()
                self._progress(f"→ {self._labels[tool_call_id]}")
            case ToolExecutionEnd(tool_call_id, name, _, is_error):
                self._progress(f"{'✗' if is_error else '✓'} {self._labels.pop(tool_call_id, name)}")
            case PermissionDecided(decision="denied", reason=reason):
                self._progress(f"! not allowed: {reason}")
            case StorageFailed(message, unsaved):
                waiting = f"{unsaved} entries are not stored yet: " if unsaved else ""
                print(f"warning: {waiting}{message}", file=sys.stderr)

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


def run_prompt(prompt: str, arguments: Arguments, settings: Settings) -> int:
    """Run `prompt` in a supervised session and return the exit code.

    Raises:
        CodingAgentError: The session could not be started; the message says what to do.
    """
    known = user_models(os.environ)
    choice = choose_model(settings, known.catalog)
    options = session_options(
        settings, choice, resume=arguments.resume, session=arguments.session, safety=safety_of(arguments)
    )
    # Nobody can follow up here, so a run that would end does not wait for one on its way.
    options = evolve(options, agent_settings={**options.agent_settings, "follow_up_window_ms": 0})
    options = evolve(options, get_api_key=known.key_finder)
    return run(_main, prompt, Printer(arguments, choice), settings, options, known, watchdog_s=WATCHDOG_S)


async def _main(prompt: str, printer: Printer, settings: Settings, options: SessionOptions, known: UserModels) -> int:
    with interrupts(self_pid()):
        try:
            await ensure_all_started(APPLICATION)
            use_catalog(known.catalog)
            if printer.arguments.metrics:
                put_env(APPLICATION.name, METRICS, Metrics.start())
            await _listen(settings)
            return await _run(prompt, printer, options)
        finally:
            await stop_all()


async def _listen(settings: Settings) -> None:
    try:
        await add_child(Listener.child_spec(settings.runtime_dir, id="listener"))
    except StartFailed as failed:
        if not isinstance(failed.reason, UnsafeRuntimeDir):
            raise
        print(f"warning: `tree` will not find this host: {failed.reason}", file=sys.stderr)


async def _run(prompt: str, printer: Printer, options: SessionOptions) -> int:
    session = await start_session(options)
    printer.begin(await client.get_state(session))
    await client.subscribe(session, self_pid())
    await client.prompt(session, prompt)
    monitor(session)
    interrupted = False
    while printer.settled is None:
        match await receive():
            case Down(process=pid, reason=reason) if pid == session:
                raise SessionCrashed(f"the session process ended: {reason}; what it had said is stored, try --continue")
            case SessionEvent() as event:
                printer.take(event)
            case Interrupted() if interrupted:
                return 130
            case Interrupted():
                interrupted = True
                client.abort_async(session)
            case _:
                pass
    code = printer.finish()
    return 130 if interrupted else code


@contextmanager
def interrupts(listener: Pid) -> Iterator[None]:
    """While inside, SIGINT, SIGTERM and SIGHUP become `Interrupted` messages to `listener`."""
    loop = asyncio.get_running_loop()
    signals: list[Any] = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
    for number in signals:
        loop.add_signal_handler(number, send, listener, Interrupted())
    try:
        yield
    finally:
        for number in signals:
            loop.remove_signal_handler(number)


def main_argument(args: Any) -> str:
    """The argument that says most about a call, on one short line."""
    for value in args.values() if hasattr(args, "values") else ():
        if isinstance(value, str) and value.strip():
            line = redact(value.strip().splitlines()[0])
            return line if len(line) <= 80 else line[:79] + "…"
    return ""
