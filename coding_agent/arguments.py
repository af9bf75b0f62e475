"""Pure. The command line of the host as one frozen value."""

import argparse
import re
from collections.abc import Sequence
from typing import Final, NoReturn

from attrs import field, frozen

from coding_agent.errors import BadUsage

_EPILOG = """\
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
  rewind FILE ENTRY   take files and conversation back to an entry
  config show|path    every setting and where it comes from
  trust show|yes|no   what in this project waits for your trust

rules: TOOL, or TOOL(PATTERN): bash(git *), write(src/**), read(.env), web_fetch(example.com). A command is taken apart
and every part of it judged; deny wins over ask, ask over allow, allow over the mode.

exit codes: 0 done; 1 the run ended in an error; 2 bad usage; 130 interrupted
"""


@frozen
class Arguments:
    """What was asked for.

    Attributes:
        prompt: The text behind `-p`, taken as it stands; None without `-p`, empty when nothing stood behind it.
        messages: Further prompts, run one after the other; one that begins with `@` names a file for the first.
        output: `text`, `json` or `rpc`; what the program prints.
        json: Print every session event as a JSON line.
        rpc_deltas: With `rpc`, leave the growing message out of `message_update`.
        partials: With `json`, put the growing message into each `message_update`; quadratic in its length.
        resume: Go on with the newest session of the working folder.
        choose: Let the person choose the session to go on with, at a terminal.
        session: Go on with this file.
        fork: Go on with a copy of this file.
        name: What to call the session.
        keep: Keep the session's file; without, nothing is left of it.
        tools: The only tools to offer; None offers all.
        models: The models to go through with one key, as patterns.
        fallback: Who answers when the model cannot, in this order.
        list_models: Print the models whose name holds this, and do nothing else.
        api_key: The key for the provider of the model, for this start.
        mode: What may be done without asking: `ask`, `edit`, `full` or `plan`; None is the default of the way it runs.
        allow: Rules for what may be done, such as `bash(git *)`.
        ask: Rules for what is asked about in any mode.
        deny: Rules for what may not be done in any mode.
        sandbox: `strict` or `net` runs commands in a sandbox without or with network.
        checkpoints: Keep what files were like before they are changed.
        trust: Trust this project for this start.
        context_files: Read `AGENTS.md` and `CLAUDE.md`.
        skills: Further files and folders of skills.
        use_skills: Read any.
        templates: Further files and folders of templates.
        use_templates: Read any.
        extensions: Further extensions.
        use_extensions: Load any.
        system_prompt: Stands in for the agent's identity; a text or a file.
        append_prompt: Is added to it.
        unsafe_repl: Let whoever looks in with `repl --unsafe` run Python here.
        no_colour: No colours in the terminal.
        extra: Flags that only an extension may know, `--name` or `--name=value`.
        metrics: Count what happens; a HOST:PORT to serve the series at, empty for none; None does not count.
        observe: Serve the observer page at this HOST:PORT, empty for any free port of this machine; None does not.
        otel: Make OpenTelemetry spans and send them to this address, empty for what `OTEL_*` say; None does not.
        otel_content: Put what was said into the spans.
    """

    prompt: str | None
    messages: tuple[str, ...] = ()
    output: str = "text"
    json: bool = False
    rpc_deltas: bool = False
    partials: bool = False
    quiet: bool = False
    no_colour: bool = False
    unsafe_repl: bool = False
    verbose: bool = False
    metrics: str | None = None
    observe: str | None = None
    otel: str | None = None
    otel_content: bool = False
    resume: bool = False
    choose: bool = False
    session: str | None = None
    fork: str | None = None
    name: str | None = None
    keep: bool = True
    tools: tuple[str, ...] | None = None
    models: tuple[str, ...] = ()
    fallback: tuple[str, ...] = ()
    list_models: str | None = None
    api_key: str | None = field(default=None, repr=False)
    cwd: str | None = None
    session_dir: str | None = None
    model: str | None = None
    base_url: str | None = None
    thinking: str | None = None
    mode: str | None = None
    allow: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    sandbox: str | None = None
    checkpoints: bool = True
    trust: bool = False
    context_files: bool = True
    skills: tuple[str, ...] = ()
    use_skills: bool = True
    templates: tuple[str, ...] = ()
    use_templates: bool = True
    extensions: tuple[str, ...] = ()
    use_extensions: bool = True
    system_prompt: str | None = None
    append_prompt: str | None = None
    extra: tuple[str, ...] = ()


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise BadUsage(f"{message}; see --help")


def parse(argv: Sequence[str]) -> Arguments:
    """Read the command line. `--help` and `--version` print and exit, as `argparse` does.

    Raises:
        BadUsage: Something is wrong with it; the message says what.
    """
    known, rest = _parser().parse_known_intermixed_args(_with_places(argv))
    found = vars(known)
    if any(not word.startswith("--") or word == "--" for word in rest):
        raise BadUsage(f"unrecognized arguments: {' '.join(rest)}; see --help")
    found["extra"] = tuple(rest)
    if sum(bool(found[name]) for name in ("resume", "choose", "session", "fork")) > 1:
        raise BadUsage("--continue, --resume, --session and --fork each name a session; give one of them")
    if found["json"] and found["output"] not in (None, "json"):
        raise BadUsage("--json and --mode say different things; give one of them")
    found["output"] = "json" if found["json"] else found["output"] or "text"
    found["json"] = found["output"] == "json"
    if found["partials"] and not found["json"]:
        raise BadUsage("--partials goes with --json")
    if found["rpc_deltas"] and found["output"] != "rpc":
        raise BadUsage("--rpc-deltas goes with --mode rpc")
    if found.pop("no_tools"):
        found["tools"] = ()
    elif found["tools"] is not None:
        found["tools"] = _names(found["tools"])
    found["models"] = _names(found["models"] or "")
    found["fallback"] = _names(",".join(found["fallback"]))
    found["messages"] = tuple(found["messages"])
    for kind in ("allow", "ask", "deny", "skills", "templates", "extensions"):
        found[kind] = tuple(found[kind])
    return Arguments(**found)


PLACES: Final = {
    "--metrics": re.compile(r"(\[[0-9a-fA-F:.]+\]:|[\w.-]+:|:)?[0-9]{1,5}"),
    "--observe": re.compile(r"(\[[0-9a-fA-F:.]+\]:|[\w.-]+:|:)?[0-9]{1,5}"),
    "--otel": re.compile(r"\S+://\S+|[\w.-]+:[0-9]{1,5}"),
}
"""Flags with an address that may be left out, and what one looks like: a prompt may stand there instead."""


def _with_places(argv: Sequence[str]) -> list[str]:
    """The arguments, with those flags tied to their address or to none."""
    given = list(argv)
    for at, argument in enumerate(given):
        if argument == "--":
            break
        if argument in PLACES and not (at + 1 < len(given) and PLACES[argument].fullmatch(given[at + 1])):
            given[at] = f"{argument}="
    return given


def _names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m coding_agent",
        description="A coding agent in your terminal, as supervised processes.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("messages", nargs="*", metavar="MESSAGE", help="what to say first; @FILE puts a file or a picture in")
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
    add("--rpc-deltas", action="store_true", help="with --mode rpc: message_update without the message so far")
    add("--continue", "-c", dest="resume", action="store_true", help="go on with the newest session of this folder")
    add("--resume", "-r", dest="choose", action="store_true", help="choose the session to go on with, at a terminal")
    add("--session", metavar="FILE", help="go on with this session file")
    add("--fork", metavar="FILE", help="go on with a copy of this session file")
    add("--name", "-n", metavar="NAME", help="what to call the session")
    add("--no-session", dest="keep", action="store_false", help="leave no session file behind")
    add("--session-dir", metavar="DIR", help="where session files are kept (LEMON_SESSION_DIR)")
    add("--cwd", metavar="DIR", help="the folder the agent works in (default: this one)")
    add("--model", metavar="PROVIDER/MODEL", help="who answers (LEMON_MODEL)")
    add("--api-key", metavar="KEY", help="the key for the model's provider; others on this machine can see it here")
    add(
        "--fallback",
        metavar="PROVIDER/MODEL",
        action="append",
        default=[],
        help="who answers when the model's provider fails before it said anything (repeatable)",
    )
    add("--models", metavar="A,B", help="the models to go through with one key: names or patterns")
    add("--list-models", metavar="WORDS", nargs="?", const="", help="print the models there are and exit")
    add("--tools", metavar="A,B", help="offer the model only these tools")
    add("--no-tools", action="store_true", help="offer the model no tools")
    add("--base-url", metavar="URL", help="where an OpenAI-compatible server listens (LEMON_BASE_URL)")
    add(
        "--thinking",
        metavar="LEVEL",
        choices=("off", "minimal", "low", "medium", "high", "xhigh", "max"),
        help="how hard to think",
    )
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
    add("--json", action="store_true", help="print every session event as a line of JSON")
    add("--partials", action="store_true", help="with --json: put the growing message into message_update events")
    add("--unsafe-repl", action="store_true", help="let `repl --unsafe` run Python in this host")
    add("--verbose", action="store_true", help="warnings and crash reports on standard error, not only in the log file")
    _add_measuring(parser)
    add(
        "--no-colour", "--no-color", dest="no_colour", action="store_true", help="no colours in the terminal (NO_COLOR)"
    )
    add("--quiet", "-q", action="store_true", help="no progress lines on standard error")
    _add_resources(parser)
    return parser


def _add_measuring(parser: argparse.ArgumentParser) -> None:
    """What the host shows of itself."""
    add = parser.add_argument
    add(
        "--metrics",
        metavar="HOST:PORT",
        help="count what happens; `metrics` in another terminal prints the series, Prometheus reads them at HOST:PORT",
    )
    add("--observe", metavar="HOST:PORT", help="show the tree in a browser; without HOST:PORT at a free port here")
    add("--otel", metavar="URL", help="send OpenTelemetry spans of runs to URL, or to where OTEL_* variables say")
    add("--otel-content", action="store_true", help="with --otel: put prompts, answers and arguments into the spans")


def _add_resources(parser: argparse.ArgumentParser) -> None:
    """What is read besides the settings."""
    add = parser.add_argument
    add("--trust", action="store_true", help="trust this project for this start: its settings, skills, MCP servers")
    add("--no-context-files", dest="context_files", action="store_false", help="do not read AGENTS.md and CLAUDE.md")
    add("--skill", dest="skills", metavar="PATH", action="append", default=[], help="a skill's file or folder")
    add("--no-skills", "-ns", dest="use_skills", action="store_false", help="no skills")
    add("--prompt-template", dest="templates", metavar="PATH", action="append", default=[], help="a template")
    add("--no-prompt-templates", "-np", dest="use_templates", action="store_false", help="no templates")
    add("--extension", "-e", dest="extensions", metavar="PATH", action="append", default=[], help="a Python file")
    add("--no-extensions", "-ne", dest="use_extensions", action="store_false", help="no extensions")
    add("--system-prompt", metavar="TEXT", help="who the agent is, instead of what it says of itself; or a file")
    add("--append-system-prompt", dest="append_prompt", metavar="TEXT", help="is added to it; or a file")
