"""Edge. The interactive terminal on any channel: the screen where one can be drawn, plain lines where not."""

from contextlib import suppress

from attrs import evolve

from coding_agent.terminal.channel import Channel
from coding_agent.terminal.conversation import Conversation
from coding_agent.terminal.options import TerminalOptions
from coding_agent.terminal.view import View

WITHOUT_EXTRA = "this is the plain terminal; for the full one: pip install 'lemon-agents[terminal]'"


def farewell(view: View, options: TerminalOptions) -> str:
    """How to come back, for whoever leaves; nothing where nothing was said."""
    if view.close_reason is not None:
        return ""  # whoever opened the connection says what became of the host
    if options.is_guest:
        return f"the session goes on; come back with: python -m coding_agent attach {view.session_id[:13]}\n"
    return "come back with: python -m coding_agent --continue\n" if view.message_count else ""


async def run_terminal(channel: Channel, *, options: TerminalOptions) -> int:
    """Let a person hold the conversation at the other end of `channel`, until they leave; the exit code.

    Standard input and output are taken to be a terminal. Every mode that is switched on is switched off when this
    returns or raises, when the program ends, and while it is suspended.

    Args:
        channel: To the host, in this process or behind a socket. It is not closed.
        options: How it is shown. Where prompt-toolkit and rich are not installed it is plain lines, and a notice
            says so.

    Raises:
        CommandFailed: The host does not take it.

    Returns:
        0 when the person left, 1 when the host did, 128 and the number of the signal that asked for the end.

    Cancelling gives the terminal back.
    """
    if not options.plain:
        try:
            from coding_agent.terminal.screen import Screen
        except ImportError as error:  # not there, or too old
            if error.name not in ("prompt_toolkit", "rich", "wcwidth", "markdown_it"):
                raise
            options = evolve(options, plain=True, notices=(*options.notices, WITHOUT_EXTRA))
        else:
            screen = Screen(options)
            talk = Conversation(channel, options, screen)
            screen.attach(talk)
            try:
                code = await screen.run()
            finally:
                talk.close()
            if screen.failure is not None:
                raise screen.failure
            with suppress(OSError):  # the terminal may be what has gone
                print(farewell(talk.view, options), end="", flush=True)
            return code
    from coding_agent.terminal.line_mode import run_lines

    return await run_lines(channel, options)
