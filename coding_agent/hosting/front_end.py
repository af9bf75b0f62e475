"""Edge. Which front end a command line asks for, and its start: print, events as lines, RPC, or the terminal."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from attrs import evolve

from coding_agent.arguments import Arguments
from coding_agent.errors import BadUsage
from coding_agent.flags import unknown_flags
from coding_agent.hosting.command_line import Prompted, prompts_of
from coding_agent.hosting.piped_input import piped_text
from coding_agent.hosting.running import prepared, run_host
from coding_agent.settings import Settings, settings_of

CHOOSE: Final = "/resume"
"""What a person would type to choose."""
NOTHING_TO_DO: Final = 'there is nothing to do: give a prompt with -p "PROMPT", or pipe one in'


def start_front_end(arguments: Arguments, environ: Mapping[str, str]) -> int:
    """Run what the command line asks for and return the exit code.

    Raises:
        CodingAgentError: It cannot be run; the message says what to do.
    """
    if arguments.list_models is not None:
        from coding_agent.models.models_command import main as list_models

        return list_models(["list", "--", *([arguments.list_models] if arguments.list_models else [])], environ)
    if arguments.export is not None:
        return _export(arguments, settings_of(arguments, environ))
    with _files(arguments, settings_of(arguments, environ)) as settings:
        if arguments.choose and not (arguments.output == "text" and arguments.prompt is None and _at_a_terminal()):
            raise BadUsage("--resume asks at a terminal; here give --continue or --session FILE")
        if arguments.output == "rpc":
            return _rpc(arguments, settings)
        if arguments.prompt is None and arguments.output == "text" and _at_a_terminal():
            return _terminal(arguments, settings, environ)
        prompts = prompts_of(arguments, piped_text())
        if not prompts:
            raise BadUsage(unknown_flags(arguments.extra) if arguments.extra else NOTHING_TO_DO)
        from coding_agent.print_mode import run_prompts

        return run_prompts(prompts, prepared(arguments, settings))


def _export(arguments: Arguments, settings: Settings) -> int:
    """Write a stored session for people or programs to read, and say where it is now."""
    from coding_agent.credentials import known_secrets
    from coding_agent.exporting.save import save
    from coding_agent.storage.finding import find_session
    from coding_agent.storage.opening import open_for_reading

    if len(arguments.messages) > 1 or arguments.prompt is not None:
        raise BadUsage("--export SESSION takes one more word, the file to write; it runs no prompt")
    output = Path(arguments.messages[0]) if arguments.messages else None
    with open_for_reading(find_session(arguments.export or "", settings.session_dir, settings.cwd)) as manager:
        try:
            path = save(manager, output, secrets=known_secrets())
        except FileExistsError as error:
            raise BadUsage(f"{error.filename} is there already and is left as it is; name another file") from error
    print(path)
    return 0


def _rpc(arguments: Arguments, settings: Settings) -> int:
    if arguments.messages or arguments.prompt is not None:
        raise BadUsage("with --mode rpc prompts come as commands on standard input, not on the command line")
    from coding_agent.rpc.stdio import over_standard_streams

    body = over_standard_streams()
    return run_host(body, prepared(arguments, settings))


def _terminal(arguments: Arguments, settings: Settings, environ: Mapping[str, str]) -> int:
    from coding_agent.hosting.interactive import ask_for_trust, interactive

    prompts = prompts_of(arguments)
    if arguments.choose:
        if prompts:
            raise BadUsage("--resume lets you choose a session first; say the rest there")
        prompts = [Prompted(CHOOSE)]
    if ask_for_trust(settings):
        settings = evolve(settings_of(arguments, environ), session_dir=settings.session_dir)
    return run_host(interactive(prompts), prepared(arguments, settings))


def _at_a_terminal() -> bool:
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout))


@contextmanager
def _files(arguments: Arguments, settings: Settings) -> Iterator[Settings]:
    """The settings; without a session to be kept, with a folder for its files that is gone afterwards."""
    if arguments.keep:
        yield settings
        return
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix="lemon-", ignore_cleanup_errors=True) as folder:
        yield evolve(settings, session_dir=Path(folder))
