"""Pure. Programs that run other programs: what `env`, `xargs`, `find -exec`, `bash -c` and their like come down to.

The command itself is always a part; here is said what else it runs. Where that cannot be told it is `Unclear`.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from attrs import evolve

from coding_agent.permissions.parts import Part, ReadsFile, Run, RunsFile, Unclear
from coding_agent.permissions.shell_words import OPEN, Word, literal

ParseCode: TypeAlias = Callable[[str], Iterator[Part]]
"""Takes shell code apart; handed down, because the parser stands above this module."""

SHELLS: Final = frozenset({"bash", "sh", "dash", "zsh", "ksh", "mksh", "ash", "rbash", "fish", "csh", "tcsh", "yash"})
PLAIN_WRAPPERS: Final = frozenset({"time", "timeout", "nice", "nohup", "stdbuf", "command", "builtin"})
"""They add nothing of their own to the command they run."""

_VALUE_OPTIONS: Final[Mapping[str, str]] = {
    "env": "-u --unset -C --chdir -a --argv0",
    "xargs": "-a --arg-file -d --delimiter -E -I -L -n --max-args -P --max-procs -s --max-chars --process-slot-var",
    "timeout": "-k --kill-after -s --signal",
    "nice": "-n --adjustment",
    "ionice": "-c --class -n --classdata",
    "stdbuf": "-i --input -o --output -e --error",
    "sudo": "-u --user -g --group -h --host -p --prompt -C -D --chdir -R -r --role -t --type -T -U",
    "doas": "-u -C",
    "exec": "-a",
    "chrt": "-T -P -D",
    "taskset": "",
    "setsid": "",
    "nohup": "",
    "command": "",
    "builtin": "",
    "time": "-f --format -o --output",
    "coproc": "",
    "chroot": "",
    "unshare": "-S --setuid -G --setgid -R --root -w --wd",
    "setpriv": "--reuid --regid --groups --inh-caps --ambient-caps --bounding-set --securebits",
    "busybox": "",
    "toybox": "",
    "fakeroot": "-l --lib -s -i",
    "strace": "-e -o -p -s -u -E -a -b -I -O -S -P -X",
    "ltrace": "-e -o -p -s -u -a -A -D -F -l -n -x",
    "catchsegv": "",
    "linux32": "",
    "linux64": "",
    "setarch": "",
    "firejail": "",
    "caffeinate": "-t -w",
    "chronic": "",
    "unbuffer": "",
    "rlwrap": "",
}
"""Programs that run the command given after their options, with those options that take a word more."""

_WORDS_BEFORE: Final[Mapping[str, int]] = {"timeout": 1, "taskset": 1, "chrt": 1, "chroot": 1}
_TAKES_ASSIGNMENTS: Final = frozenset({"env", "sudo", "doas", "time", "coproc", "fakeroot"})
_RESERVED: Final = frozenset(
    {"{", "}", "(", "if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done", "case", "esac", "select"}
    | {"function", "[[", "!", "time", "coproc", "in"}
)
_EVALUATES: Final = frozenset(
    {"test", "[", "printf", "read", "unset", "let", "compgen", "complete", "mapfile", "readarray", "wait", "getopts"}
    | {"declare", "typeset", "local", "export", "readonly", "fc", "bind", "enable", "shopt"}
)
"""Builtins that evaluate subscripts in the names they are given, or more."""
_UNKNOWABLE: Final[Mapping[str, str]] = {
    "bind": "bind can make keys run commands",
    "complete": "complete can name commands to run",
    "compgen": "compgen can run commands",
    "let": "let evaluates its words",
    "fc": "fc runs commands of the history",
    "enable": "enable changes what names stand for",
    "parallel": "parallel runs what it is given",
    "watch": "watch runs what it is given",
    "script": "script runs a shell",
    "su": "su runs a shell",
    "runuser": "runuser runs a shell",
    "at": "at runs commands later",
    "batch": "batch runs commands later",
    "crontab": "crontab runs commands later",
    "systemd-run": "systemd-run runs what it is given",
    "nsenter": "nsenter runs a program elsewhere",
    "expect": "expect runs what its script says",
    "gdb": "gdb can run any program",
}
_INLINE_CODE: Final[Mapping[str, re.Pattern[str]]] = {
    "python": re.compile(r"-[A-Za-z]*c|-$"),
    "pypy": re.compile(r"-[A-Za-z]*c|-$"),
    "perl": re.compile(r"-[A-Za-z0-9]*[eE]"),
    "ruby": re.compile(r"-[A-Za-z0-9]*e"),
    "node": re.compile(r"-[a-z]*[ep]|--eval|--print"),
    "bun": re.compile(r"-[a-z]*[ep]|--eval|--print"),
    "deno": re.compile(r"eval$"),
    "php": re.compile(r"-[a-z]*[rRBE]"),
    "lua": re.compile(r"-[a-z]*e"),
    "tclsh": re.compile(r"-$"),
    "vim": re.compile(r"-[a-zA-Z]*[cS]$|\+|--cmd"),
    "vi": re.compile(r"-[a-zA-Z]*[cS]$|\+|--cmd"),
    "nvim": re.compile(r"-[a-zA-Z]*[cS]$|\+|--cmd"),
    "emacs": re.compile(r"--?eval|-f$"),
    "awk": re.compile(r"(?s).*(system|getline|\||--file|-f)"),
    "gawk": re.compile(r"(?s).*(system|getline|\||--file|-f)"),
    "mawk": re.compile(r"(?s).*(system|getline|\||-f)"),
    "nawk": re.compile(r"(?s).*(system|getline|\||-f)"),
    "sed": re.compile(r"(?s)(?!--?[a-z]).*((^|[\s;{}0-9$/!,])e(\s|$|;)|[^\w\s][gpIiMm0-9]*e[gpIiMm0-9w]*(\s|;|\}|$))"),
    "tar": re.compile(r"--to-command|--checkpoint-action|--use-compress|-[A-Za-z]*I|--rsh"),
    "rsync": re.compile(r"-[A-Za-z]*e|--rsh"),
}  # fmt: skip
"""Programs that run code from their arguments, with the arguments that look like it."""
_ASSIGNMENT: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\+?=")
_HARMLESS_VARIABLES: Final = re.compile(
    r"(LANG|LANGUAGE|LC_[A-Z]+|TZ|TERM|COLUMNS|LINES|NO_COLOR|FORCE_COLOR|CLICOLOR|CI|DEBUG|VERBOSE|NODE_ENV"
    r"|PYTHONUNBUFFERED|PYTHONDONTWRITEBYTECODE|RUST_BACKTRACE|RUST_LOG|CARGO_TERM_COLOR|GIT_TERMINAL_PROMPT)\Z"
)
_NOT_EXPORTED_YET: Final = re.compile(r"[a-z_][A-Za-z0-9_]*\Z|[A-Z]\Z")
_RUNS_CODE: Final = re.compile(
    r"(BASH_ENV|ENV|PATH|IFS|PS[0-4]|PROMPT_COMMAND|SHELLOPTS|BASHOPTS|BASH_FUNC.*|SHELL|.*PAGER|.*EDITOR|VISUAL|BROWSER"
    r"|LD_.*|DYLD_.*|GIT_.*|.*_COMMAND|.*_ASKPASS|LESSOPEN|LESSCLOSE|PYTHON.*|PERL.*|RUBY.*|NODE_.*|JAVA_.*|GCONV_PATH)\Z"
)
_DEPTH_MAX: Final = 20


def program_name(word: Word) -> str | None:
    """The file name of a program, however it is reached; None when it is not known."""
    return None if word.text is None else word.text.rstrip("/").rpartition("/")[2]


def is_followed(name: str) -> bool:
    """Is what the program runs a part of its own?"""
    return name in _VALUE_OPTIONS or name in ("find", "flock", "eval", "trap", "alias")


def changes_meaning(name: str, *, for_command: bool) -> bool:
    """May setting this variable change which programs run or what they do? Lower-case ones are the script's own."""
    if _HARMLESS_VARIABLES.match(name):
        return False
    return for_command or not _NOT_EXPORTED_YET.match(name)


def expand(run: Run, parse: ParseCode, depth: int = 0) -> Iterator[Part]:
    """The command and everything it runs in turn."""
    name = program_name(run.words[0])
    if name is None:
        yield run
        yield Unclear(f"which program {run.words[0].raw} is shows only when it runs")
        return
    if depth > _DEPTH_MAX:
        yield Unclear("commands within commands, too deep to follow")
        return
    yield evolve(run, plain_wrapper=name in PLAIN_WRAPPERS)
    for variable in run.environment:
        if _RUNS_CODE.match(variable):
            yield Unclear(f"{variable} can name code to run")
    if "/" in (run.words[0].text or ""):
        yield RunsFile(run.words[0].text or "")
    yield from _inner(name, run, parse, depth)


def _inner(name: str, run: Run, parse: ParseCode, depth: int) -> Iterator[Part]:
    arguments = run.words[1:]
    if name in SHELLS:
        yield from _shell(name, arguments, parse)
    elif name == "eval":
        yield from _code(arguments, "eval", parse)
    elif name in ("source", "."):
        yield from _source(arguments)
    elif name == "trap":
        yield from _trap(arguments, parse)
    elif name == "alias":
        yield from _alias(arguments, parse)
    elif name == "hash":
        if arguments:
            yield Unclear("hash changes what a name stands for")
    elif name == "find":
        yield from _find(arguments, parse, depth)
    elif name == "flock":
        yield from _flock(arguments, parse, depth)
    elif name in _UNKNOWABLE:
        yield Unclear(_UNKNOWABLE[name])
    elif name in _VALUE_OPTIONS:
        yield from _wrapped(name, run, parse, depth)
    elif re.fullmatch(r"ld(-linux.*|-musl.*)?\.so(\.\d+)*", name):
        yield Unclear("the loader runs the program it is given")
    if name in _EVALUATES:
        yield from _evaluating(name, arguments)
    yield from _inline_code(name, arguments)


def _command(words: Sequence[Word], environment: tuple[str, ...], parse: ParseCode, depth: int) -> Iterator[Part]:
    if words:
        yield from expand(Run(tuple(words), environment=environment), parse, depth + 1)


def _wrapped(name: str, run: Run, parse: ParseCode, depth: int) -> Iterator[Part]:
    """The command behind a wrapper's options."""
    takes_value = _VALUE_OPTIONS[name].split()
    words = list(run.words[1:])
    environment = list(run.environment)
    to_skip = _WORDS_BEFORE.get(name, 0)
    while words:
        text = words[0].text
        if text is None:
            yield Unclear(f"what {name} runs shows only when it does")
            return
        if text == "--":
            words.pop(0)
            yield from _assigned(name, words, environment)
            words = words[to_skip:]
            break
        if name in ("command",) and re.fullmatch(r"-[pvV]*[vV][pvV]*", text):
            return
        if name == "env" and (text.startswith(("-S", "--split")) or re.fullmatch(r"-[a-zA-Z]*S.*", text)):
            yield Unclear("env -S takes a string apart")
            return
        if text.startswith("-") and len(text) > 1:
            words.pop(0)
            if text in takes_value and words:
                words.pop(0)
        elif name in _TAKES_ASSIGNMENTS and (found := _ASSIGNMENT.match(text)):
            if changes_meaning(found[1], for_command=True):
                environment.append(found[1])
            words.pop(0)
        elif text == "-" and name == "env":
            words.pop(0)
        elif to_skip:
            to_skip -= 1
            words.pop(0)
        elif name in ("taskset", "setarch") and re.fullmatch(r"[0-9,xa-f-]+|x86_64|i\d86|linux\d\d", text):
            words.pop(0)
        else:
            break
    if name == "xargs":
        words = [*(words or [literal("echo")]), OPEN]
        if any(word.text is not None and program_name(word) in SHELLS for word in words[:1]):
            yield Unclear("xargs gives a shell what it read")
    if name in ("time", "coproc") and words and words[0].text in _RESERVED:
        yield Unclear(f"{name} before more than a simple command")
    if name == "coproc" and len(words) > 1:
        yield from _command(words[1:], tuple(environment), parse, depth)
    if name in ("sudo", "chroot", "unshare", "firejail") and not words:
        yield Unclear(f"{name} runs a shell")
    yield from _command(words, tuple(environment), parse, depth)


def _assigned(name: str, words: list[Word], environment: list[str]) -> Iterator[Part]:
    """Assignments behind the end of the options."""
    while name in _TAKES_ASSIGNMENTS and words:
        if words[0].text is None:
            yield Unclear(f"what {name} runs shows only when it does")
            return
        found = _ASSIGNMENT.match(words[0].text)
        if not found:
            return
        environment.append(found[1])
        words.pop(0)


def _shell(name: str, arguments: Sequence[Word], parse: ParseCode) -> Iterator[Part]:
    """`bash -c CODE`, `bash FILE`, or a shell that reads its code from its input."""
    rest = list(arguments)
    while rest:
        text = rest[0].text
        if text is None:
            yield Unclear(f"what {name} is given shows only when it runs")
            return
        if text in ("-o", "-O", "+o", "+O", "--rcfile", "--init-file"):
            if text in ("--rcfile", "--init-file"):
                yield Unclear(f"{name} runs a start file")
            rest = rest[2:]
        elif re.fullmatch(r"-[A-Za-z]*c[A-Za-z]*", text):
            rest = rest[1:]
            while rest and rest[0].text is not None and re.match(r"[-+]([A-Za-z]|-?\Z)", rest[0].text):
                rest = rest[1:]  # more options may stand between -c and the code
            yield from _code(rest[:1], f"{name} -c", parse)
            return
        elif text == "-s" or text == "-":
            break
        elif text.startswith(("-", "+")):
            rest = rest[1:]
            if re.fullmatch(r"-[A-Za-z]*s[A-Za-z]*|--", text) and not rest:
                break
        else:
            yield ReadsFile(text)
            yield RunsFile(text)
            yield Run(tuple(rest), plain_wrapper=True)  # looked for in the PATH as well
            return
    if not (len(rest) == 1 and rest[0].text in ("--version", "--help")):
        yield Unclear(f"{name} runs whatever it reads")


def _code(words: Sequence[Word], what: str, parse: ParseCode) -> Iterator[Part]:
    texts = [word.text for word in words]
    if any(text is None for text in texts):
        yield Unclear(f"what {what} runs shows only when it does")
    elif texts:
        yield from parse(" ".join(text or "" for text in texts))


def _source(arguments: Sequence[Word]) -> Iterator[Part]:
    if not arguments or arguments[0].text is None:
        yield Unclear("which file is run shows only when it is")
    elif arguments[0].text.startswith("/dev/") or arguments[0].text.startswith("/proc/"):
        yield Unclear("the shell runs whatever it reads")
    else:
        yield ReadsFile(arguments[0].text)
        yield Unclear(f"the shell runs what is in {arguments[0].text}")


def _trap(arguments: Sequence[Word], parse: ParseCode) -> Iterator[Part]:
    if arguments and arguments[0].text not in ("-", "-l", "-p", ""):
        yield from _code([word for word in arguments if word.text != "--"][:1], "trap", parse)


def _alias(arguments: Sequence[Word], parse: ParseCode) -> Iterator[Part]:
    for argument in arguments:
        if argument.text is None:
            yield Unclear("what an alias stands for shows only when it is set")
        elif "=" in argument.text:
            yield from parse(argument.text.partition("=")[2])
            yield Unclear("an alias changes what a name stands for")


def _find(arguments: Sequence[Word], parse: ParseCode, depth: int) -> Iterator[Part]:
    rest = list(arguments)
    while rest:
        text = rest.pop(0).text
        if text is None:
            yield Unclear("what find does shows only when it runs")
            return
        if text in ("-exec", "-execdir", "-ok", "-okdir"):
            command: list[Word] = []
            while rest and rest[0].text not in (";", "+"):
                command.append(OPEN if "{}" in (rest[0].text or "{}") else rest[0])
                rest.pop(0)
            rest = rest[1:]
            yield from _command(command, (), parse, depth)
        elif text == "-delete":
            yield Unclear("find -delete removes files")
        elif text in ("-fprint", "-fprint0", "-fls", "-fprintf"):
            yield Unclear(f"find {text} writes a file")


def _flock(arguments: Sequence[Word], parse: ParseCode, depth: int) -> Iterator[Part]:
    texts = [word.text for word in arguments]
    if None in texts:
        yield Unclear("what flock runs shows only when it does")
        return
    for at, text in enumerate(texts):
        if text in ("-c", "--command"):
            yield from _code(arguments[at + 1 : at + 2], "flock -c", parse)
            return
    plain = [at for at, text in enumerate(texts) if not str(text).startswith("-")]
    for at in plain[1:]:
        yield from _command(arguments[at:], (), parse, depth)


def _evaluating(name: str, arguments: Sequence[Word]) -> Iterator[Part]:
    """Names with subscripts are evaluated by these, `a[$(program)]` included."""
    for at, argument in enumerate(arguments):
        text = argument.text
        if text is None:
            ends = at + 1 >= len(arguments) or arguments[at + 1].text == "]"
            before = arguments[at - 1].text if at else None
            data = name in ("test", "[") and argument.quoted and (before in _ASKS_ABOUT_TEXT or (ends and at >= 2))
            if not data and not (name == "printf" and at > 0 and arguments[0].text not in (None, "-v")):
                yield Unclear(f"what {name} is given shows only when it runs")
                return
        elif "[" in text and text != "[" and any(char in text for char in "$`"):
            yield Unclear(f"{name} evaluates what stands in brackets")
            return
        elif name in ("test", "[") and text in ("-v", "-R"):
            yield Unclear(f"{name} {text} evaluates a name")
            return
        elif name in ("mapfile", "readarray") and text.startswith("-C"):
            yield Unclear(f"{name} -C runs a command")
            return


_ASKS_ABOUT_TEXT: Final = frozenset({"-n", "-z", "-f", "-e", "-d", "-s", "-r", "-w", "-x", "-L", "-h"})


def _inline_code(name: str, arguments: Sequence[Word]) -> Iterator[Part]:
    base = re.sub(r"[\d.]+$", "", name) or name
    pattern = _INLINE_CODE.get(base)
    if pattern is None:
        return
    if any(word.text is None or pattern.match(word.text) for word in arguments):
        yield Unclear(f"{name} runs code that stands in its arguments")
    elif base in ("python", "pypy", "perl", "ruby", "node", "bun", "php", "lua", "tclsh") and not arguments:
        yield Unclear(f"{name} runs whatever it reads")
