"""Pure. What can be typed after a slash: names, what they take, what they do; and how a line is understood."""

from typing import Final, Literal, TypeAlias

from attrs import frozen

Kind: TypeAlias = Literal["prompt", "command", "shell", "quiet_shell", "nothing"]


@frozen
class SlashCommand:
    """A command of the terminal's own.

    Attributes:
        takes: Its arguments, as they are shown.
    """

    name: str
    summary: str
    takes: str = ""


COMMANDS: Final = (
    SlashCommand("help", "keys and commands"),
    SlashCommand("model", "choose who answers", "[NAME]"),
    SlashCommand("thinking", "how hard to think", "[LEVEL]"),
    SlashCommand("tree", "go to another place of the conversation"),
    SlashCommand("fork", "go on from an earlier prompt in a new session"),
    SlashCommand("clone", "go on from here in a new session"),
    SlashCommand("new", "begin a new session"),
    SlashCommand("resume", "go on with another session", "[ID|latest|all]"),
    SlashCommand("name", "name this session", "NAME"),
    SlashCommand("label", "put a label on the last entry, or take it away", "[TEXT]"),
    SlashCommand("compact", "make the conversation shorter", "[INSTRUCTIONS]"),
    SlashCommand("rewind", "take files and conversation back to an earlier prompt"),
    SlashCommand("tools", "which tools the model has"),
    SlashCommand("permissions", "what may be done without asking", "[MODE]"),
    SlashCommand("budget", "how much may be used", "[TOKENS] [$COST]"),
    SlashCommand("cost", "what was used so far"),
    SlashCommand("session", "about this session"),
    SlashCommand("export", "write the session as a web page or as Markdown", "[FILE.html|FILE.md]"),
    SlashCommand("mcp", "the MCP servers and how they are; connect them anew", "[reconnect [NAME]]"),
    SlashCommand("trust", "trust this project's own settings and programs, or stop trusting them", "[yes|no]"),
    SlashCommand("reload", "read templates, skills and extensions again"),
    SlashCommand("queue", "what waits for the model"),
    SlashCommand("copy", "copy the last answer to the clipboard"),
    SlashCommand("quit", "leave"),
)
BY_NAME: Final = {command.name: command for command in COMMANDS}
ALIASES: Final = {"exit": "quit", "q": "quit", "?": "help", "models": "model", "hotkeys": "help", "sessions": "resume"}


@frozen
class Typed:
    """What a line means.

    Attributes:
        text: The prompt, the shell command, or the arguments of a command.
        command: The name of the terminal's own command.
    """

    kind: Kind
    text: str = ""
    command: str = ""


def understood(line: str) -> Typed:
    """What was typed. A slash before a word that is no command of ours is a prompt: the host may know it."""
    text = line.strip()
    if not text:
        return Typed("nothing")
    if text.startswith("!!"):
        return Typed("quiet_shell", text[2:].strip()) if text[2:].strip() else Typed("nothing")
    if text.startswith("!"):
        return Typed("shell", text[1:].strip()) if text[1:].strip() else Typed("nothing")
    if text.startswith("/"):
        word, _, rest = text[1:].partition(" ")
        name = ALIASES.get(word, word)
        if name in BY_NAME:
            return Typed("command", rest.strip(), name)
    return Typed("prompt", text)


def budget_of(words: str) -> tuple[int | None, float | None]:
    """The tokens and the cost in `200k $1.50`, in any order.

    Raises:
        ValueError: Something in it is neither.
    """
    tokens, cost = None, None
    for word in words.split():
        if word.startswith("$"):
            cost = float(word[1:])
        else:
            factor = {"k": 1_000, "m": 1_000_000}.get(word[-1].lower(), 1)
            tokens = int(float(word[:-1] if factor > 1 else word) * factor)
    return tokens, cost


KEYS: Final = (
    ("Enter", "send; while the model works: say it at the next chance"),
    ("Alt+Enter", "a new line; while the model works: say it when it is done"),
    ("Shift+Enter, Ctrl-J, \\ Enter", "a new line"),
    ("Esc", "stop the model, or leave a question unanswered"),
    ("Ctrl-C", "empty the line; twice: quit"),
    ("Ctrl-D", "quit, when the line is empty"),
    ("Ctrl-Z", "suspend; fg comes back"),
    ("Ctrl-T", "show or fold thinking"),
    ("Ctrl-O", "show or fold the output of tools"),
    ("Shift+Tab", "the next thinking level"),
    ("Ctrl-P", "the next model"),
    ("Ctrl-L", "draw the screen anew"),
    ("Up, Down", "what was typed before"),
    ("Tab", "complete a command or a file"),
    ("@", "names a file"),
    ("!command", "run it, and tell the model with the next prompt"),
    ("!!command", "run it, and do not tell the model"),
)
