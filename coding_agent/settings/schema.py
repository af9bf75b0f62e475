"""Pure. Every setting there is: its name in a file, what it can be, and what a project may do with it untrusted.

The names are those of pi where it has such a setting, so that its files are read as they are.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

from attrs import frozen

Rule: TypeAlias = Literal["free", "trust", "lower", "on", "off", "more", "stricter"]
"""What an untrusted project may do: anything; nothing; give a lower number, only `true`, only `false`, add items, give
a stricter word of those the setting can be."""


class BadValue(ValueError):
    """A setting cannot have this value; the text says what it can be."""


@frozen
class Kind:
    """What a setting can be.

    Attributes:
        says: For a person, after "must be".
        read: A value of JSON as a value of ours; raises `BadValue`.
    """

    says: str
    read: Callable[[Any], Any]


@frozen
class Field:
    """One setting.

    Attributes:
        key: Its name, with dots for the objects it stands in.
        project: See `Rule`.
        default: When nobody says anything.
        variable: The environment variable that gives it.
        paths: Its items are paths, relative to the folder of the file they stand in.
        guards: It protects something: a value that cannot be understood ends the program.
        order: From the strictest word to the least strict, for `stricter`.
        meaning: For a person, on one line.
    """

    key: str
    kind: Kind
    project: Rule = "trust"
    default: Any = None
    variable: str | None = None
    paths: bool = False
    guards: bool = False
    order: Sequence[Any] = ()
    meaning: str = ""


def _bool(value: Any) -> bool:
    if not isinstance(value, bool):
        raise BadValue
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise BadValue
    return value.strip()


def _whole(value: Any) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**53:
        raise BadValue
    return value


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise BadValue
    return float(value)


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) and "\0" not in item for item in value):
        raise BadValue
    return tuple(item for item in value if item)


def _levels(value: Any) -> Mapping[str, int]:
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
        raise BadValue
    return {name: _whole(item) for name, item in value.items()}


def _sandbox(value: Any) -> str | None:
    if value in (False, "off"):
        return "off"
    if value is True:
        return "strict"
    if value in ("strict", "net"):
        return str(value)
    raise BadValue


def one_of(*words: str) -> Kind:
    """One of these words."""

    def read(value: Any) -> str:
        if value not in words or not isinstance(value, str):
            raise BadValue
        return value

    return Kind(f"one of {', '.join(words)}", read)


BOOL: Final = Kind("true or false", _bool)
TEXT: Final = Kind("a text", _text)
WHOLE: Final = Kind("a whole number, not below 0", _whole)
NUMBER: Final = Kind("a number, not below 0", _number)
TEXTS: Final = Kind("a list of texts", _texts)
LEVELS: Final = Kind("an object of whole numbers", _levels)
SANDBOX: Final = Kind('true, false, "strict" or "net"', _sandbox)
THINKING: Final = one_of("off", "minimal", "low", "medium", "high", "xhigh", "max")
QUEUE_MODE: Final = one_of("one-at-a-time", "all")

MODES: Final = ("plan", "ask", "edit", "full")
"""From the strictest on."""

EXTRA_TOOLS: Final = ("checkpoint", "execute_code", "hashline_edit")
"""Tools that somebody must ask for: with `extraTools`, or by name with `--tools`."""

FIELDS: Final[Sequence[Field]] = (
    Field("defaultProvider", TEXT, meaning="who answers, with defaultModel"),
    Field("defaultModel", TEXT, meaning="the model's name, or PROVIDER/MODEL"),
    Field("fallbackModels", TEXTS, default=(), meaning="who answers, in this order, when that one cannot"),
    Field("baseUrl", TEXT, meaning="where an OpenAI-compatible server listens"),
    Field("defaultThinkingLevel", THINKING, default="off", variable="LEMON_THINKING", meaning="how hard to think"),
    Field("thinkingBudgets", LEVELS, default={}, meaning="tokens for each thinking level"),
    Field("enabledModels", TEXTS, default=(), meaning="the models to go through with one key, as patterns"),
    Field("transport", one_of("sse", "websocket", "auto"), default="sse", meaning="how a provider is talked to"),
    Field("steeringMode", QUEUE_MODE, "free", "one-at-a-time", meaning="how many steering texts one look takes"),
    Field("followUpMode", QUEUE_MODE, "free", "one-at-a-time", meaning="the same of follow-ups"),
    Field("maxToolTurns", WHOLE, "lower", 25, guards=True, meaning="turns with tool calls in one run"),
    Field("compaction.enabled", BOOL, "free", True, meaning="make a long conversation shorter unasked"),
    Field("compaction.reserveTokens", WHOLE, "free", 16_384, meaning="room left for the answer"),
    Field("compaction.keepRecentTokens", WHOLE, "free", 20_000, meaning="how much stays word for word"),
    Field("branchSummary.reserveTokens", WHOLE, "free", 16_384, meaning="room left when a branch is summarised"),
    Field("branchSummary.skipPrompt", BOOL, "free", False, meaning="leave a branch without asking for a summary"),
    Field("retry.enabled", BOOL, "free", True, meaning="ask a provider again after a passing failure"),
    Field("retry.maxRetries", WHOLE, "free", meaning="how often; without it as often as is usual for the provider"),
    Field("retry.baseDelayMs", WHOLE, "free", meaning="about the first wait; it doubles with each try"),
    Field("retry.maxDelayMs", WHOLE, "free", 60_000, meaning="a longer wait asked for by a server ends the run"),
    Field(
        "permissions.mode",
        one_of(*MODES),
        "stricter",
        variable="LEMON_PERMISSION_MODE",
        guards=True,
        order=MODES,
        meaning="what goes without asking",
    ),
    Field("permissions.allow", TEXTS, default=(), guards=True, meaning="rules for what goes without asking"),
    Field("permissions.ask", TEXTS, "more", (), guards=True, meaning="rules for what is asked about in every mode"),
    Field("permissions.deny", TEXTS, "more", (), guards=True, meaning="rules for what may not be done"),
    Field(
        "sandbox",
        SANDBOX,
        "stricter",
        "off",
        variable="LEMON_SANDBOX",
        guards=True,
        order=("strict", "net", "off"),
        meaning="run commands in a sandbox",
    ),
    Field("checkpoints", BOOL, "on", True, meaning="keep what files were like before they are changed"),
    Field("budget.maxTokens", WHOLE, "lower", guards=True, meaning="tokens a session may use"),
    Field("budget.maxCost", NUMBER, "lower", guards=True, meaning="US dollars a session may cost"),
    Field("budget.maxTurns", WHOLE, "lower", guards=True, meaning="model calls a session may make"),
    Field("budget.maxSeconds", NUMBER, "lower", guards=True, meaning="seconds a session may take"),
    Field("budget.maxChildren", WHOLE, "lower", guards=True, meaning="subagents at work at one time"),
    Field("subagents.depth", WHOLE, "lower", 1, guards=True, meaning="floors of subagents"),
    Field("subagents.timeoutMs", WHOLE, default=None, meaning="the deadline of subagents when nobody names one"),
    Field("shellCommandPrefix", TEXT, meaning="put before every command"),
    Field(
        "extraTools",
        TEXTS,
        default=(),
        variable="LEMON_EXTRA_TOOLS",
        meaning="tools that are not offered else: checkpoint, execute_code, hashline_edit",
    ),
    Field("images.autoResize", BOOL, "free", True, meaning="make pictures smaller before they are sent"),
    Field("images.blockImages", BOOL, "on", False, meaning="send no pictures"),
    Field("terminal.showImages", BOOL, "free", True, meaning="show pictures in the terminal"),
    Field("hideThinkingBlock", BOOL, "free", meaning="show no thinking; false shows it unfolded"),
    Field("theme", TEXT, "free", "dark", variable="LEMON_THEME", meaning="the colours"),
    Field("quietStartup", BOOL, "free", False, meaning="say little when it starts"),
    Field("doubleEscapeAction", one_of("tree", "fork", "none"), "free", "tree", meaning="what Esc twice does"),
    Field(
        "treeFilterMode",
        one_of("default", "no-tools", "user-only", "labeled-only", "all"),
        "free",
        "default",
        meaning="what the tree shows",
    ),
    Field("editorPaddingX", WHOLE, "free", 0, meaning="columns left free beside the input"),
    Field("autocompleteMaxVisible", WHOLE, "free", 5, meaning="completions shown at once"),
    Field("notifications", BOOL, "free", True, meaning="tell the desktop when a run is over"),
    Field("contextFiles", BOOL, "free", True, meaning="read AGENTS.md and CLAUDE.md"),
    Field("skills", TEXTS, default=(), paths=True, meaning="further skills: files, folders, globs"),
    Field("prompts", TEXTS, default=(), paths=True, meaning="further templates"),
    Field("extensions", TEXTS, default=(), paths=True, meaning="further extensions"),
    Field("enableSkillCommands", BOOL, "free", True, meaning="offer skills as /skill:NAME"),
    Field("claudeSkills", BOOL, "off", False, meaning="read ~/.claude/skills too"),
    Field("claudeCommands", BOOL, "off", False, meaning="read .claude/commands as templates too"),
    Field("codexSkills", BOOL, "off", False, meaning="read ~/.codex/skills too"),
    Field("offline", BOOL, "on", False, variable="LEMON_OFFLINE", meaning="reach no other machine"),
    Field("mcp", BOOL, "off", True, meaning="start the MCP servers of configuration files"),
    Field("mcpSampling", BOOL, "off", False, guards=True, meaning="let MCP servers have the model answer, when asked"),
    Field("sessionDir", TEXT, variable="LEMON_SESSION_DIR", meaning="where session files are kept"),
)
BY_KEY: Final[Mapping[str, Field]] = {field.key: field for field in FIELDS}
GROUPS: Final = frozenset(key.partition(".")[0] for key in BY_KEY if "." in key)

ELSEWHERE: Final = frozenset(
    {"collapseChangelog", "showHardwareCursor", "npmCommand", "packages", "themes", "lastChangelogVersion", "shellPath"}
    | {"terminal.clearOnShrink", "markdown", "httpProxy", "$schema"}
)
"""Settings of pi that mean nothing here; nobody is warned about them."""


def valid(field: Field, value: Any) -> Any:
    """A value of a file as the setting's.

    Raises:
        BadValue: It cannot be that.
    """
    try:
        return field.kind.read(value)
    except (BadValue, OverflowError) as error:
        raise BadValue(f"{field.key} must be {field.kind.says}") from error


def from_text(field: Field, text: str) -> Any:
    """What a text of the environment, or of a command line, stands for. Raises `BadValue`."""
    if field.kind in (TEXT,) or field.kind.says.startswith("one of"):
        return valid(field, text.strip().lower() if field.kind is not TEXT else text)
    words: dict[str, Any] = {"true": True, "1": True, "on": True, "false": False, "0": False}
    if field.kind in (BOOL, SANDBOX):
        return valid(field, words.get(text.strip().lower(), text.strip().lower() if field.kind is SANDBOX else text))
    if field.kind is TEXTS and not text.lstrip().startswith("["):
        return valid(field, [text.strip()])
    import json

    try:
        return valid(field, json.loads(text))
    except (ValueError, RecursionError) as error:
        raise BadValue(f"{field.key} must be {field.kind.says}") from error


def tightens(field: Field, value: Any, below: Any) -> bool:
    """May an untrusted project set this, where the person's own settings come to `below`?"""
    match field.project:
        case "free" | "more":
            return True
        case "on" | "off":
            return value is (field.project == "on")
        case "lower":
            return below is None or value <= below
        case "stricter":
            return below is None or field.order.index(value) <= field.order.index(below)
        case _:
            return False
