"""Pure. Rules such as `bash(git *)`, `write(src/**)`, `web_fetch(host)`: how they are written, what they match.

A rule names a tool, the beginning of tools' names and a `*`, as `mcp__server__*`, or with `*` all of them; and perhaps
what it is about. Tools with the same effect share their rules: whoever denies `write(keys/**)` denies `edit` and
`patch` there too.

- Commands: words, each compared whole; within a word `*`, `?` and `[...]` as in file names. A last `*` of its own is
  for any further words. A rule that allows must otherwise match to the last word; one that denies or asks matches
  whatever begins with it.
- Paths: as in a .gitignore, relative to the workspace; `/...` and `~/...` are absolute.
- Addresses: a host name; `*.` in front of it for the hosts below.
"""

import fnmatch
import os
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, Literal, TypeAlias

from attrs import frozen

from coding_agent.permissions.parts import Run
from coding_agent.permissions.shell_programs import SHELLS, is_followed, program_name
from coding_agent.permissions.shell_words import Word
from coding_agent.tool_kinds import CHANGES_FILES, LOOKS_AT_FILES

Match: TypeAlias = Literal["yes", "maybe", "no"]
Kind: TypeAlias = Literal["allow", "ask", "deny"]

FAMILIES: Final[Sequence[frozenset[str]]] = (
    CHANGES_FILES,
    LOOKS_AT_FILES,
    frozenset({"bash", "process"}),
    frozenset({"web_fetch", "web_download", "browser"}),
)
_RULE: Final = re.compile(r"\s*(\*|[A-Za-z_][\w.:-]*\*?)\s*(?:\((.*)\))?\s*\Z", re.DOTALL)
_OPERATORS: Final = re.compile(r"[;&|<>`\n]|\$\(|\$\{")
_LOOKS_ONLY: Final = frozenset(
    {"echo", "printf", "ls", "cat", "grep", "egrep", "fgrep", "rg", "head", "tail", "wc", "test", "[", "true", "false"}
    | {"which", "type", "man", "cd", "mkdir", "touch", "pwd", "basename", "dirname", "realpath", "stat", "file", "cp"}
    | {"mv", "ln", "diff", "sort", "uniq", "cut", "tr", "tee", "jq", "date", "sleep", "kill", "chmod", "exit", "export"}
)
"""Programs that never run one of their arguments, so that a forbidden name among these says nothing."""


class BadRule(ValueError):
    """A rule cannot be understood; the text says why."""


@frozen
class Rule:
    """What one rule says.

    Attributes:
        kind: What it does.
        tool: A tool's name, its beginning and `*`, or `*`.
        pattern: What it is about; None for every use of the tool.
    """

    kind: Kind
    tool: str
    pattern: str | None = None

    def __str__(self) -> str:
        return self.tool if self.pattern is None else f"{self.tool}({self.pattern})"

    def names(self, tool: str) -> bool:
        """Is it about this tool?"""
        if self.tool.endswith("*"):
            return tool.startswith(self.tool[:-1])
        return self.tool == tool or any(self.tool in family and tool in family for family in FAMILIES)


def parse_rule(text: str, kind: Kind) -> Rule:
    """The rule that a text is.

    Raises:
        BadRule: It is none.
    """
    found = _RULE.match(text)
    if found is None:
        raise BadRule(f"{text!r} is no rule; write TOOL or TOOL(PATTERN), such as bash(git *) or write(src/**)")
    tool, pattern = found[1], found[2]
    if tool == "Bash" or tool.lower() in ("read", "write", "edit"):
        tool = tool.lower()
    if pattern is None or not pattern.strip() or pattern.strip() in ("*", "**"):
        return Rule(kind, tool)
    pattern = pattern.strip()
    if tool in ("bash", "process"):
        pattern = re.sub(r":\*\Z", " *", pattern)
        if _OPERATORS.search(pattern):
            raise BadRule(f"{text!r}: a rule is about one command; operators and expansions are judged by themselves")
    return Rule(kind, tool, pattern)


# Commands.


def match_run(rule: Rule, run: Run) -> Match:
    """Is the rule about this command? A rule that allows is never sure of what is open."""
    if rule.pattern is None:
        return "yes"
    patterns = rule.pattern.split()
    if rule.kind == "allow":
        return "yes" if _matches_all(patterns, run.words) else "no"
    return _may_match(patterns, run.words)


def _matches_all(patterns: Sequence[str], words: Sequence[Word]) -> bool:
    open_ended = len(patterns) > 1 and patterns[-1] == "*"
    heads = patterns[:-1] if open_ended else patterns
    if len(words) < len(heads) or (not open_ended and len(words) != len(heads)):
        return False
    return all(word.text is not None and _word(pattern, word.text) for pattern, word in zip(heads, words, strict=False))


def _may_match(patterns: Sequence[str], words: Sequence[Word]) -> Match:
    heads = patterns[:-1] if len(patterns) > 1 and patterns[-1] == "*" else patterns
    if not words:
        return "no"
    name = program_name(words[0])
    if name is None:
        return "maybe"
    if not (_word(heads[0], name) or _word(heads[0], words[0].text or "")):
        return "maybe" if _named_in(heads[0], name, words[1:]) else "no"
    rest = [word.text for word in words[1:]]
    wanted = list(heads[1:])
    for pattern, text in zip(wanted, rest, strict=False):
        if text is None or not _word(pattern, text):
            break
    else:
        if len(rest) >= len(wanted):
            return "yes"
    return _scattered(wanted, rest)


def _scattered(wanted: list[str], rest: Sequence[str | None]) -> Match:
    """Do the words come in this order, with others between them? Options may stand there."""
    for text in rest:
        if not wanted:
            break
        if text is None:
            return "maybe"
        if _word(wanted[0], text):
            wanted.pop(0)
    return "no" if wanted else "maybe"


def _named_in(program: str, runner: str, words: Sequence[Word]) -> bool:
    """Does a command of which we do not know what it runs name the program?"""
    if runner in _LOOKS_ONLY or runner in SHELLS or is_followed(runner) or "*" in program:
        return False
    search = re.compile(rf"(?<![\w.-]){re.escape(program)}(?![\w-])")
    return any(word.text is not None and search.search(word.text) for word in words)


def _word(pattern: str, text: str) -> bool:
    return fnmatch.fnmatchcase(text, pattern)


# Paths and addresses.


def match_path(rule: Rule, shown: str, real: str) -> bool:
    """Is the rule about this file? `shown` is relative to the workspace when inside it, else absolute."""
    if rule.pattern is None:
        return True
    pattern = os.path.expanduser(rule.pattern) if rule.pattern.startswith("~") else rule.pattern
    expression = _path_expression(pattern, below=rule.kind != "allow")
    return bool(expression.match(real if pattern.startswith("/") else shown))


@lru_cache(maxsize=256)
def _path_expression(pattern: str, *, below: bool) -> re.Pattern[str]:
    """A pattern as an expression; without a slash it is about a name anywhere."""
    out = "" if "/" in pattern.rstrip("/") else "(?:.*/)?"
    at = 0
    body = pattern.removeprefix("./").rstrip("/")
    while at < len(body):
        if body.startswith("**/", at):
            out += "(?:.*/)?"
            at += 3
        elif body.startswith("**", at):
            out += ".*"
            at += 2
        else:
            out += {"*": "[^/]*", "?": "[^/]"}.get(body[at], re.escape(body[at]))
            at += 1
    ends = "(?:/.*)?" if below or pattern.endswith("/") else ""
    return re.compile(f"{out}{ends}\\Z", re.DOTALL)


def match_host(rule: Rule, url: str) -> bool:
    """Is the rule about the host of this address?"""
    if rule.pattern is None:
        return True
    wanted = rule.pattern.removeprefix("domain:").rstrip(".").casefold()
    host = host_of(url)
    if host is None:
        return rule.kind != "allow"
    if wanted.startswith("*."):
        return host.endswith(wanted[1:])
    return host == wanted or (rule.kind != "allow" and host.endswith("." + wanted))


def host_of(url: str) -> str | None:
    """The host an address leads to; None when that is not plain."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url.strip() if "://" in url else f"https://{url.strip()}")
        host = parts.hostname
    except ValueError:
        return None
    if not host or "@" in parts.netloc or "\\" in url or any(char.isspace() or ord(char) < 32 for char in url.strip()):
        return None
    return host.rstrip(".").casefold()


def match_text(rule: Rule, text: str) -> bool:
    """Is the rule about this argument of a tool we know nothing of?"""
    return rule.pattern is None or fnmatch.fnmatchcase(text, rule.pattern)


# From what was shown to a rule.

_GROUPED: Final = frozenset(
    {
        "git",
        "npm",
        "pnpm",
        "yarn",
        "cargo",
        "go",
        "docker",
        "kubectl",
        "pip",
        "uv",
        "poetry",
        "make",
        "gh",
        "apt",
        "brew",
    }
)
"""Programs whose first argument says what they do."""
_ONLY_AS_SHOWN: Final = frozenset(
    {"rm", "dd", "mkfs", "chmod", "chown", "kill", "curl", "wget", "ssh", "scp", "docker", "kubectl", "npx", "uvx"}
    | {"python", "python3", "perl", "ruby", "node", "php", "awk", "sed", "find", "tee", "mv", "cp", "ln", "git", "make"}
)


def rule_for(run: Run) -> Rule | None:
    """The rule that "always allow" stores for a command, or None where there can be none.

    It has the words that were shown: for most programs its name and any further words, for a program that takes orders
    as its first word that too, and for the dangerous ones exactly the command.
    """
    texts = [word.text for word in run.words]
    if run.environment or any(text is None or not _plain(text) for text in texts):
        return None
    words = [text for text in texts if text is not None]
    name = words[0]
    if name in SHELLS or name in ("env", "xargs", "sudo", "doas", "eval", "exec", "source", "."):
        return None
    if name in _GROUPED and len(words) > 1 and re.fullmatch(r"[a-z][\w-]*", words[1]):
        return Rule("allow", "bash", f"{name} {words[1]} *")
    if name in _ONLY_AS_SHOWN or "/" in name:
        return Rule("allow", "bash", " ".join(words))
    return Rule("allow", "bash", f"{name} *")


def _plain(text: str) -> bool:
    """Can a word stand in a rule and mean only itself?"""
    return bool(re.fullmatch(r"[\w./:=@%+,-]+", text))
