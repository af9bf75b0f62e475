"""Pure. The command line of the host as one frozen value."""

import re
from collections.abc import Sequence
from typing import Any, Final

from attrs import field, frozen

from coding_agent.errors import BadUsage
from coding_agent.flags import THINKING_LEVELS, flag_parser


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
        session: Go on with this one: a file, an id or the beginning of one, or `latest`.
        fork: Go on with a copy of this one.
        name: What to call the session.
        keep: Keep the session's file; without, nothing is left of it.
        tools: The only tools to offer; None offers all.
        models: The models to go through with one key, as patterns.
        fallback: Who answers when the model cannot, in this order.
        list_models: Print the models whose name holds this, and do nothing else.
        offline: Reach no other machine.
        theme: The colours of the terminal.
        export: Write this session as a page, or as Markdown where the one message is named so, and do nothing else.
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
    offline: bool = False
    theme: str | None = None
    export: str | None = None
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


def parse(argv: Sequence[str]) -> Arguments:
    """Read the command line; what stands behind `--` are messages. `--help` and `--version` print and exit.

    Raises:
        BadUsage: Something is wrong with it; the message says what.
    """
    given = list(argv)
    end = given.index("--") if "--" in given else len(given)
    known, rest = flag_parser().parse_known_intermixed_args(_with_places(given[:end]))
    if any(not word.startswith("--") for word in rest):
        raise BadUsage(f"unrecognized arguments: {' '.join(rest)}; see --help")
    found = vars(known)
    found["extra"] = tuple(rest)
    found["messages"] = (*found["messages"], *given[end + 1 :])
    _settle_output(found)
    if sum(bool(found[name]) for name in ("resume", "choose", "session", "fork")) > 1:
        raise BadUsage("--continue, --resume, --session and --fork each name a session; give one of them")
    if found.pop("no_tools"):
        found["tools"] = ()
    elif found["tools"] is not None:
        found["tools"] = _names(found["tools"])
    found["model"], level = _model(found.pop("provider"), found["model"])
    found["thinking"] = found["thinking"] or level
    found["models"] = _names(found["models"] or "")
    found["fallback"] = _names(",".join(found["fallback"]))
    for kind in ("allow", "ask", "deny", "skills", "templates", "extensions"):
        found[kind] = tuple(found[kind])
    return Arguments(**found)


def _settle_output(found: dict[str, Any]) -> None:
    """`--json` and `--mode` come to one answer; what goes with one kind of output only is refused with another."""
    if found["json"] and found["output"] not in (None, "json"):
        raise BadUsage("--json and --mode say different things; give one of them")
    found["output"] = "json" if found["json"] else found["output"] or "text"
    found["json"] = found["output"] == "json"
    if found["partials"] and not found["json"]:
        raise BadUsage("--partials goes with --json")
    if found["rpc_deltas"] and found["output"] != "rpc":
        raise BadUsage("--rpc-deltas goes with --mode rpc")


WITH_TAGS: Final = ("ollama", "lmstudio", "llama_cpp", "vllm", "local")
"""Servers of one's own, whose models may be called anything: what stands behind a colon is part of the name."""

_PLACE: Final = r"[0-9.]+|localhost|\[\S*|[\w.-]*:[\w:.-]+|\S+://\S*"
PLACES: Final = {
    "--metrics": re.compile(_PLACE),
    "--observe": re.compile(_PLACE),
    "--otel": re.compile(r"\S+://\S*|[\w.-]+:[0-9]{1,5}"),
}
"""Flags with an address that may be left out, and what one looks like, or a mistaken one: a prompt may stand there
instead."""


def _with_places(argv: Sequence[str]) -> list[str]:
    """The arguments, with those flags tied to their address or to none."""
    given = list(argv)
    for at, argument in enumerate(given):
        if argument in PLACES and not (at + 1 < len(given) and PLACES[argument].fullmatch(given[at + 1])):
            given[at] = f"{argument}="
    return given


def _model(provider: str | None, model: str | None) -> tuple[str | None, str | None]:
    """The model of a provider, and the thinking level that stood behind its name."""
    name = model or provider
    if name is None:
        return None, None
    if provider and model and not model.startswith(f"{provider}/"):
        name = f"{provider}/{model}"
    head, _, level = name.rpartition(":")
    has_level = head and level in THINKING_LEVELS and head.partition("/")[0] not in WITH_TAGS
    return (head, level) if has_level else (name, None)


def _names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
