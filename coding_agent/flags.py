"""Edge. The flags of the host, in the groups that `--help` shows; `arguments` is what they come to."""

import argparse
from collections.abc import Sequence
from typing import Any, Final

from coding_agent.command_parser import PROGRAM, CommandParser, did_you_mean
from coding_agent.release import release

THINKING_LEVELS: Final = ("off", "minimal", "low", "medium", "high", "xhigh", "max")

_EPILOG: Final = """\
other commands:
  serve [--detach]    keep sessions alive while terminals come and go; serve stop ends it
  attach [ID]         a terminal on a session that is kept alive; sessions live lists them
  login PROVIDER      store an API key, or log in; logout forgets it, auth list says whose there are
  models list         the models that can be used here, and the servers of this machine
  doctor [--json]     look at everything the program needs here
  tree [--json]       the supervision tree of every host that runs now
  repl [--attach]     look into a running host and act on it; without --attach into a busy demo
  report              one file with what is needed to understand what went wrong, without secrets
  sessions ...        look at, check, fork or export session files; sessions live and stop are about those that run
  metrics             the Prometheus series of every host started with --metrics
  acp                 an agent for editors that speak the Agent Client Protocol
  mcp list|check      the MCP servers that are configured here, and whether they answer
  mcp login|logout    a login at one of them
  demo-host           a busy host to look into, with a tool that hangs
  rewind ID ENTRY     take files and conversation back to an entry
  config show|path    every setting and where it comes from
  trust show|yes|no   what in this project waits for your trust

rules: TOOL, or TOOL(PATTERN): bash(git *), write(src/**), read(.env), web_fetch(example.com). A command is taken apart
and every part of it judged; deny wins over ask, ask over allow, allow over the mode.

exit codes: 0 done; 1 the run ended in an error; 2 bad usage; 130 interrupted
"""


def flag_parser() -> CommandParser:
    """What reads the command line of the host."""
    parser = CommandParser(
        prog=PROGRAM,
        description="A coding agent in your terminal, as supervised processes.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("messages", nargs="*", metavar="MESSAGE", help="what to say first; @FILE puts a file or a picture in")
    add(
        "--version",
        action=_ShowRelease,
        nargs=0,
        default=argparse.SUPPRESS,
        help="print the version of the program and exit",
    )
    _add_answering(parser.add_argument_group("how to answer"))
    _add_session(parser.add_argument_group("the session"))
    _add_model(parser.add_argument_group("the model"))
    _add_permissions(parser.add_argument_group("what may be done"))
    _add_resources(parser.add_argument_group("what is read besides the settings"))
    _add_measuring(parser.add_argument_group("what the host shows of itself"))
    return parser


def unknown_flags(words: Sequence[str]) -> str:
    """That nobody knows these, and what was probably meant."""
    known = [flag for action in flag_parser()._actions for flag in action.option_strings if flag.startswith("--")]
    hints = (did_you_mean(word.partition("=")[0], known) for word in words)
    return f"unrecognized arguments: {' '.join(words)}{next(filter(None, hints), '')}; see --help".replace("?;", "?")


class _ShowRelease(argparse.Action):
    """Looks the version up only when somebody asks: that takes longer than to read a command line."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        print(release())
        parser.exit()


def _add_answering(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "-p",
        "--print",
        dest="prompt",
        metavar="PROMPT",
        nargs="?",
        const="",
        help="run PROMPT and every MESSAGE, print the last answer and exit",
    )
    add(
        "--mode",
        dest="output",
        choices=("text", "json", "rpc"),
        help="text: the answer; json: every event as a line of JSON; rpc: commands in, events out",
    )
    add("--json", action="store_true", help="print every session event as a line of JSON")
    add("--partials", action="store_true", help="with --json: put the growing message into message_update events")
    add("--rpc-deltas", action="store_true", help="with --mode rpc: message_update without the message so far")
    add("--quiet", "-q", action="store_true", help="no progress lines on standard error")
    add("--verbose", action="store_true", help="warnings and crash reports on standard error, not only in the log file")
    add("--theme", metavar="NAME", help="the colours of the terminal: dark, light, or one of your own (LEMON_THEME)")
    add(
        "--no-colour", "--no-color", dest="no_colour", action="store_true", help="no colours in the terminal (NO_COLOR)"
    )


def _add_session(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--continue", "-c", dest="resume", action="store_true", help="go on with the newest session of this folder")
    add("--resume", "-r", dest="choose", action="store_true", help="choose the session to go on with, at a terminal")
    add("--session", metavar="SESSION", help="go on with this one: a file, an id or how it begins, or latest")
    add("--fork", metavar="SESSION", help="go on with a copy of this one")
    add("--name", "-n", metavar="NAME", help="what to call the session")
    add(
        "--export",
        metavar="SESSION",
        help="write it as a web page, or to the file that is named behind it: FILE.html, FILE.md, FILE.json; and exit",
    )
    add("--no-session", dest="keep", action="store_false", help="leave no session file behind")
    add("--session-dir", metavar="DIR", help="where session files are kept (LEMON_SESSION_DIR)")
    add("--cwd", metavar="DIR", help="the folder the agent works in (default: this one)")


def _add_model(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--model", metavar="PROVIDER/MODEL", help="who answers (LEMON_MODEL); :LEVEL behind it is how hard to think")
    add("--provider", metavar="NAME", help="whose --model; alone, the model that its key stands for")
    add("--api-key", metavar="KEY", help="the key for the model's provider; others on this machine can see it here")
    add("--base-url", metavar="URL", help="where an OpenAI-compatible server listens (LEMON_BASE_URL)")
    add(
        "--fallback",
        metavar="PROVIDER/MODEL",
        action="append",
        default=[],
        help="who answers when the model's provider fails before it said anything (repeatable)",
    )
    add(
        "--offline",
        action="store_true",
        help="reach no other machine (LEMON_OFFLINE): a model on this one answers, the tools for the web refuse. "
        "Commands are programs of their own: --sandbox keeps them from the network too",
    )
    add("--models", metavar="A,B", help="the models to go through with one key: names or patterns")
    add("--list-models", metavar="WORDS", nargs="?", const="", help="print the models there are and exit")
    add(
        "--thinking",
        metavar="LEVEL",
        choices=THINKING_LEVELS,
        help="how hard to think",
    )


def _add_permissions(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--tools", metavar="A,B", help="offer the model only these tools")
    add("--no-tools", action="store_true", help="offer the model no tools")
    add(
        "--permission-mode",
        dest="mode",
        choices=("ask", "edit", "full", "plan"),
        help="what may be done without asking: ask = read and search; edit = also change files in the working folder; "
        "full = also run commands; plan = read and search, and nothing else even when asked. "
        "Default: full with -p and from a pipe, where nobody is there to ask and the answer to a question is no",
    )
    add("--allow", metavar="RULE", action="append", default=[], help="may be done without asking (repeatable)")
    add("--ask", metavar="RULE", action="append", default=[], help="is asked about in every mode (repeatable)")
    add("--deny", metavar="RULE", action="append", default=[], help="may not be done in any mode (repeatable)")
    add(
        "--sandbox",
        nargs="?",
        const="strict",
        choices=("strict", "net"),
        help="run commands in a sandbox: they write in the working folder only, and `net` alone lets them "
        "use the network",
    )
    add("--no-checkpoints", dest="checkpoints", action="store_false", help="keep no copies of files before changes")
    add("--trust", action="store_true", help="trust this project for this start: its settings, skills, MCP servers")


def _add_resources(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--no-context-files", dest="context_files", action="store_false", help="do not read AGENTS.md and CLAUDE.md")
    add("--skill", dest="skills", metavar="PATH", action="append", default=[], help="a skill's file or folder")
    add("--no-skills", "-ns", dest="use_skills", action="store_false", help="no skills")
    add("--prompt-template", dest="templates", metavar="PATH", action="append", default=[], help="a template")
    add("--no-prompt-templates", "-np", dest="use_templates", action="store_false", help="no templates")
    add("--extension", "-e", dest="extensions", metavar="PATH", action="append", default=[], help="a Python file")
    add("--no-extensions", "-ne", dest="use_extensions", action="store_false", help="no extensions")
    add("--system-prompt", metavar="TEXT", help="who the agent is, instead of what it says of itself; or a file")
    add("--append-system-prompt", dest="append_prompt", metavar="TEXT", help="is added to it; or a file")


def _add_measuring(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "--metrics",
        metavar="HOST:PORT",
        help="count what happens; `metrics` in another terminal prints the series, Prometheus reads them at HOST:PORT",
    )
    add("--observe", metavar="HOST:PORT", help="show the tree in a browser; without HOST:PORT at a free port here")
    add("--otel", metavar="URL", help="send OpenTelemetry spans of runs to URL, or to where OTEL_* variables say")
    add("--otel-content", action="store_true", help="with --otel: put prompts, answers and arguments into the spans")
    add("--unsafe-repl", action="store_true", help="let `repl --unsafe` run Python in this host")
