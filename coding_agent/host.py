"""Edge. The program: arguments, signals, start, wait, stop.

Applications start in the order of their dependencies and stop in reverse (seed "BEAM Agent Architecture", Current
Supervision Structure). The first interrupt ends the run and stores what there is; a second one ends the program.

Exit codes: 0 done, 1 the run ended in an error, 2 bad usage, 130 interrupted.
"""

import errno
import io
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from coding_agent.errors import BadUsage, CodingAgentError, MistypedCommand
from coding_agent.own_environment import hide_secrets

EXIT_DONE: Final = 0
EXIT_ERROR: Final = 1
EXIT_USAGE: Final = 2
EXIT_INTERRUPTED: Final = 130
SAID_OTHERWISE: Final = {"help": "--help", "version": "--version"}
"""What other programs have as commands."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the host with these arguments (default: the program's own) and return its exit code.

    What a person can mend is one line on standard error, never a traceback.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    _prepare_streams(as_json="--json" in arguments or "json" in arguments)
    hide_secrets()
    command = COMMANDS.get(arguments[0]) if arguments else None
    try:
        try:
            code = command(arguments[1:]) if command else _prompt_command(arguments)
        except SystemExit as shown:  # --help and --version have printed what they had to
            code = shown.code if isinstance(shown.code, int) else EXIT_DONE
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read us is gone: leave without a word, and keep Python from complaining when it closes the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_DONE
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        where = "the output cannot be written: " if error.errno in (errno.ENOSPC, errno.EIO, errno.EBADF) else ""
        return _say(f"{where}{error}", EXIT_ERROR)
    except BadUsage as error:
        return _say(error, EXIT_USAGE)
    except CodingAgentError as error:
        return _say(error, EXIT_ERROR)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    return code


def _prompt_command(argv: Sequence[str]) -> int:
    from coding_agent import logs
    from coding_agent.arguments import parse
    from coding_agent.hosting.front_end import start_front_end

    _refuse_mistyped(argv)
    arguments = parse(argv)
    logs.set_up(os.environ, verbose=arguments.verbose)
    return start_front_end(arguments, os.environ)


def _refuse_mistyped(argv: Sequence[str]) -> None:
    """Keep a mistyped command from a model: a prompt of one word beside the name of one must be said as a prompt.

    Raises:
        MistypedCommand: The first word looks like a command, and nothing says that it is none: `-p`, `--`, further
            words in the same argument.
    """
    word = argv[0] if argv else ""
    is_word = word.replace("-", "").isalpha() and not word.startswith("-")
    if not is_word or any(given.startswith(("-p", "--print")) for given in argv):
        return
    from coding_agent.command_parser import nearest

    near = SAID_OTHERWISE.get(word) or nearest(word, COMMANDS)
    if near is not None:
        raise MistypedCommand(word, near)


def _command(module: str, function: str = "main") -> Callable[[Sequence[str]], int]:
    """A command whose module is read when it is asked for."""

    def run(argv: Sequence[str]) -> int:
        from importlib import import_module

        return int(getattr(import_module(module), function)(argv))

    return run


def _prepare_streams(*, as_json: bool) -> None:
    """See to it that there are three streams, and that nothing that is printed can fail for its characters.

    What one cannot show is written as an escape; JSON is UTF-8 whatever the locale says.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:  # else the next file that is opened would be taken for a stream
            os.open(os.devnull, os.O_RDWR)
    for number, name in enumerate(("stdout", "stderr"), 1):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(number, "w", encoding="utf-8", closefd=False))  # noqa: SIM115 - as long as the program
        elif isinstance(stream, io.TextIOWrapper):
            if as_json and name == "stdout":
                stream.reconfigure(encoding="utf-8", errors="backslashreplace")
            elif stream.errors == "strict":
                stream.reconfigure(errors="backslashreplace")


def _say(error: object, code: int) -> int:
    from lemon_ai import redact
    from lemon_otp import introspect  # what went wrong may hold what a terminal would obey

    print("error:", introspect.printable(redact(" ".join(str(error).splitlines()))), file=sys.stderr)
    return code


COMMANDS: Final[Mapping[str, Callable[[Sequence[str]], int]]] = {
    "tree": _command("coding_agent.control.tree_command"),
    "sessions": _command("coding_agent.sessions_command"),
    "repl": _command("coding_agent.repl.repl_command"),
    "demo-host": _command("coding_agent.demo.demo_host"),
    "report": _command("coding_agent.control.report_command"),
    "metrics": _command("coding_agent.control.metrics_command"),
    "rewind": _command("coding_agent.checkpoints.rewind_command"),
    "config": _command("coding_agent.settings.config_command"),
    "trust": _command("coding_agent.trust.command"),
    "login": _command("coding_agent.credentials.login_command", "login"),
    "logout": _command("coding_agent.credentials.login_command", "logout"),
    "auth": _command("coding_agent.credentials.login_command", "auth"),
    "models": _command("coding_agent.models.models_command"),
    "doctor": _command("coding_agent.doctor.command"),
    "serve": _command("coding_agent.serving.serve"),
    "attach": _command("coding_agent.serving.attach"),
    "mcp": _command("coding_agent.mcp.mcp_command"),
    "acp": _command("coding_agent.acp.stdio"),
}
