"""The page about the control socket names what there is."""

import re
from pathlib import Path

from coding_agent.repl.operations import OPERATIONS
from coding_agent.serving.operations import operations_of
from lemon_otp.repl.built_in import BUILT_IN
from lemon_otp.repl.operations import Operation
from lemon_otp.repl.wire import REQUEST_BYTES_MAX, VERSION

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "control-socket.md"
ROW = re.compile(r"^\| `(\w+)` \| (look|act|feed|takeover) \| .* \| (.*) \|$", re.MULTILINE)


def test_every_operation_is_on_the_page_with_its_kind_and_summary() -> None:
    """And the page names no others."""
    shown = {name: (kind, summary) for name, kind, summary in ROW.findall(PAGE.read_text())}
    known = {each.name: (each.kind, each.summary) for each in every_operation()}
    assert shown == known | {"metrics": ("look", "the Prometheus series of this host")}


def test_no_operation_takes_the_place_of_another() -> None:
    """Whoever asks to stop a process must never end the host, because a feature gave its own the same name."""
    names = [each.name for each in every_operation()]
    assert sorted(names) == sorted(set(names))


def every_operation() -> list[Operation]:
    return [*BUILT_IN.values(), *OPERATIONS, *operations_of(None, None)]


def test_the_page_speaks_of_the_version_that_is_spoken() -> None:
    """And of the bound on requests."""
    text = PAGE.read_text()
    assert f'{{"op": "hello", "version": {VERSION}}}' in text
    assert f"at most {REQUEST_BYTES_MAX // 1024} KB" in text
