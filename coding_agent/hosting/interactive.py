"""Edge. The interactive terminal on a session of this host, as a client of the protocol like any other."""

import asyncio
import select
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from attrs import evolve

from coding_agent.errors import BadUsage, CodingAgentError
from coding_agent.hosting.command_line import Prompted
from coding_agent.hosting.desk import Desk
from coding_agent.hosting.first_session import first_session
from coding_agent.hosting.running import Body, HostRun
from coding_agent.rpc.in_process import InProcessChannel
from coding_agent.settings import Settings
from coding_agent.terminal.theme import DARK, Theme, find_theme
from coding_agent.trust import decide
from lemon_otp import CallFailed

LOOK_UP_S: Final = 0.1
"""Signals that come just before a wait begins are taken when it is over."""
ENDING_S: Final = 15.0
"""How long what still runs keeps the program when the person has left, at most."""


def interactive(prompts: Sequence[Prompted]) -> Body:
    """The front end that lets a person hold the conversation, beginning with these prompts."""

    async def body(host: HostRun) -> int:
        from coding_agent.terminal.app import run_terminal
        from coding_agent.terminal.options import options_from

        theme = chosen_theme(host)
        desk = await Desk.start(host)
        await first_session(desk)
        channel = InProcessChannel(desk)
        first = prompts[0] if prompts else None
        plain = first is not None and not first.images and len(prompts) == 1
        options = options_from(
            host.environ,
            host.settings.cwd,
            no_colour=host.arguments.no_colour,
            first_prompt=first.text if first is not None and plain else None,
            notices=tuple(host.notices),
        )
        options = evolve(options, show_thinking=host.settings.display.hide_thinking is False, theme=theme)
        desk.notices_are_known()
        try:
            if not plain:
                await _submit(desk, prompts)
            return await run_terminal(channel, options=options)
        finally:
            channel.close()
            await _stop(desk)
            await desk.close()

    return body


def chosen_theme(host: HostRun) -> Theme:
    """The theme of the settings; where a file names one that is not there, the usual one, and it is said.

    Raises:
        BadUsage: The command line names one that is not there.
    """
    name = host.settings.display.theme
    try:
        return find_theme(name, host.settings.config_dir / "themes")
    except BadUsage as error:
        if host.arguments.theme is not None:
            raise
        host.notices.append(str(error))
        return DARK


async def _stop(desk: Desk) -> None:
    """Whoever leaves leaves nothing running: it is aborted, and what there was is stored."""
    with suppress(CodingAgentError, CallFailed, TimeoutError):
        async with asyncio.timeout(ENDING_S):
            await desk.abort_all()


async def _submit(desk: Desk, prompts: Sequence[Prompted]) -> None:
    for prompt in prompts:
        await desk.submit(prompt.text, prompt.images, "follow_up")


def ask_for_trust(settings: Settings) -> bool:
    """Ask the person at the terminal whether they trust the project, if that has not been said yet; was it asked?

    The answer is remembered: anything but a yes is a no, and no answer at all is none.
    """
    question = None if settings.trust is None else settings.trust.question()
    if question is None or settings.trust is None:
        return False
    print(question, file=sys.stderr)
    answer = _line("[y/N] ")
    if not answer:
        return False
    try:
        decide(settings.trust, answer.strip().lower() in ("y", "yes"))
    except BadUsage as error:
        print(f"warning: the answer cannot be kept: {error}", file=sys.stderr)
        return False
    return True


def _line(prompt: str) -> str:
    """A line of standard input, empty when it has ended. An interrupt is never slept through, whenever it comes."""
    print(prompt, end="", flush=True)
    while not select.select([sys.stdin], [], [], LOOK_UP_S)[0]:
        pass
    return sys.stdin.readline()
