"""Edge. `python -m coding_agent report`: one file with what it takes to understand what went wrong, without secrets.

It holds versions, settings, the log's end, the newest crash files, and of every running host its tree, what its flight
recorder remembers, and how its loop, streams and sessions stand. Left out are arguments of tools and what crashed
processes were told and held; credentials are redacted as in logs, and the values of secret variables wherever they are.

Exit codes: 0 the file was written, 1 it could not be, 2 bad usage.
"""

import json
import os
import platform
import re
import sys
import time
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import distributions
from pathlib import Path
from typing import Any, Final

from coding_agent.command_parser import CommandParser
from coding_agent.control.client import os_pid_of, sockets
from coding_agent.credentials import known_secrets
from coding_agent.errors import BadUsage, CodingAgentError
from coding_agent.logs import log_file
from coding_agent.measuring.flight_recorder import crash_files, redacted_json
from coding_agent.own_environment import SECRET_NAME
from coding_agent.settings import read_settings, runtime_dir
from lemon_ai import redact
from lemon_otp import repl_shell

LOG_BYTES_MAX: Final = 256 * 1024
CRASHES_MAX: Final = 5
ASK_S: Final = 3.0
HIDDEN: Final = "(hidden)"
HELD: Final = re.compile(r"^( *(?:last message|state): ).*$", re.MULTILINE)
ASKED: Final[tuple[tuple[str, Mapping[str, Any]], ...]] = (
    ("tree", {"all": True}),
    ("top", {"limit": 50}),
    ("sessions", {}),
    ("history", {"limit": 2_000}),
    ("log", {"limit": 200}),
    ("apps", {}),
    ("streams", {}),
    ("zombies", {}),
    ("dispatcher", {}),
    ("breakers", {}),
    ("lag", {}),
)
"""What every running host is asked."""


def main(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """Write the report; 0 when it is there.

    Raises:
        BadUsage: The file exists, or cannot be written.
    """
    parser = CommandParser(
        prog="python -m coding_agent report",
        description="Write one file with versions, settings, log and the state of every running host, without secrets.",
    )
    parser.add_argument("--output", metavar="FILE", help="default: lemon-report-TIME.zip in this folder")
    arguments = parser.parse_args(argv)
    path = Path(arguments.output or f"lemon-report-{time.strftime('%Y%m%d-%H%M%S')}.zip")
    try:
        write_report(path, environ)
    except FileExistsError as error:
        raise BadUsage(f"{path} exists; give another with --output") from error
    except OSError as error:
        raise BadUsage(f"{path} cannot be written: {error.strerror or error}") from error
    print(f"wrote {path}; look into it before you pass it on", file=sys.stderr)
    return 0


def write_report(path: Path, environ: Mapping[str, str]) -> None:
    """Write the report into a new file of mode 0600. Raises OSError; then nothing is left of it."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as bundle:
            for name, text in parts(environ):  # names of files, variables and settings may be no proper text
                bundle.writestr(name.encode("ascii", "replace").decode(), text.encode("utf-8", "replace"))
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def parts(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The files of the report, redacted."""
    secrets = known_secrets(environ)
    yield "about.json", redacted_json(_about(), secrets)
    yield "settings.json", redacted_json(_settings(environ), secrets)
    yield "log.txt", redact(without_states(_log(log_file(environ))), secrets)
    for crash in crash_files(environ)[:CRASHES_MAX]:
        yield f"crashes/{crash.name}", redact(_text(crash), secrets)
    for path in sockets(runtime_dir(environ)):
        yield f"hosts/{os_pid_of(path)}.json", redacted_json(_host(path), secrets)


def _about() -> dict[str, Any]:
    packages = {found.metadata["Name"]: found.version for found in distributions() if found.metadata["Name"]}
    return {
        "written": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "python": sys.version,
        "platform": platform.platform(),
        "terminal": {
            name: os.environ.get(name) for name in ("TERM", "COLORTERM", "LANG", "TMUX") if name in os.environ
        },
        "packages": dict(sorted(packages.items(), key=lambda item: item[0].lower())),
    }


def _settings(environ: Mapping[str, str]) -> dict[str, Any]:
    """Every setting and where it comes from; a value whose name says that it is a secret is hidden."""
    try:
        settings = read_settings(environ)
    except CodingAgentError as error:
        return {"error": str(error)}
    merged = settings.merged
    found = {} if merged is None else merged.settings
    told = {
        key: {
            "value": HIDDEN if SECRET_NAME.search(key) and setting.value is not None else setting.value,
            "origins": [str(origin) for origin in setting.origins],
        }
        for key, setting in found.items()
    }
    return {"settings": told, "problems": list(settings.problems), "trusted": settings.trusted}


def _log(path: Path) -> str:
    """The end of the log, in whole lines: what begins in the middle cannot be told from what must be left out."""
    try:
        with path.open("rb") as file:
            length = file.seek(0, os.SEEK_END)
            file.seek(max(0, length - LOG_BYTES_MAX))
            found = file.read(LOG_BYTES_MAX)
            return (found if length <= LOG_BYTES_MAX else found.partition(b"\n")[2]).decode("utf-8", "replace")
    except OSError as error:
        return f"(no log: {error})\n"


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError as error:
        return f"({error})\n"


def _host(path: Path) -> dict[str, Any]:
    """What a running host says of itself; what it does not say in time is left out, and said."""
    found: dict[str, Any] = {"socket": str(path)}
    try:
        with repl_shell.Asker(path, timeout_s=ASK_S) as asker:
            found["hello"] = asker.hello
            for op, parameters in ASKED:
                answer = asker.ask(op, **parameters)
                found[op] = without_arguments(answer)
    except repl_shell.Unreachable as gone:
        found["error"] = str(gone)
    return found


def without_arguments(value: Any) -> Any:
    """The answer without what tools were called with, and processes held: that may be anything of the conversation."""
    if isinstance(value, Mapping):
        return {key: without_arguments(item) for key, item in value.items() if key not in ("argument", "command")}
    if isinstance(value, list):
        return [without_arguments(item) for item in value]
    return without_states(value) if isinstance(value, str) else value


def without_states(text: str) -> str:
    """Lines of crash reports without the last message and the state of the process."""
    return HELD.sub(r"\1(left out)", text)


def contents(path: Path) -> dict[str, Any]:
    """A report, read again: the files by name, JSON as values."""
    with zipfile.ZipFile(path) as bundle:
        texts = {name: bundle.read(name).decode() for name in bundle.namelist()}
    return {name: json.loads(text) if name.endswith(".json") else text for name, text in texts.items()}
