"""The tool `hashline_edit`: lines by name, all edits or none, and nobody's stale idea of a file."""

import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coding_agent.tools import Workspace, default_tools
from coding_agent.tools.hashlines import BadHashline, HashlineEdit, Lines, edits_of, letters_of, plan, reference
from tests.coding_agent.tools.support import Bench, text_of

Put = Callable[[str, str | bytes], Path]


@pytest.fixture
async def bench(folder: Path) -> AsyncIterator[Bench]:
    """The tools, with this one instead of `edit`."""
    workspace = Workspace(folder)
    tools = {tool.name: tool for tool in default_tools(str(folder), workspace=workspace, hashlines=True)}
    yield Bench(folder, workspace, tools)
    await workspace.aclose()


def names(text: str) -> list[str]:
    """The references that `read` has shown."""
    return re.findall(r"^(\d+#[A-Z]{2}): ", text, re.MULTILINE)


async def test_lines_are_edited_by_the_names_that_read_shows(bench: Bench, put: Put) -> None:
    """Replaced, taken away, put before and after; several at once, each meant as the file was read."""
    path = put("f.py", "one\ntwo\n  three\nfour\nfive\n")
    shown = await bench.text("read", path="f.py")
    one, two, three, four, five, _end = names(shown)
    assert "edit" not in bench.tools
    result = await bench.call(
        "hashline_edit",
        path="f.py",
        edits=[
            {"op": "replace", "pos": two, "end": three, "lines": ["2", "3", "3.5"]},
            {"op": "replace", "pos": four},
            {"op": "append", "pos": five, "lines": ["six"]},
            {"op": "prepend", "pos": one, "lines": ["zero"]},
            {"op": "append", "lines": ["end"]},
            {"op": "append", "lines": ["end"]},
        ],
    )

    assert path.read_text() == "zero\none\n2\n3\n3.5\nfive\nsix\nend\n"
    assert (result.details["edits"], result.details["unchanged"]) == (5, 0)
    assert "+3.5" in result.details["diff"].replace(" ", "")
    assert bench.workspace.seen[str(path)].size == path.stat().st_size


async def test_a_line_that_is_not_that_any_more_changes_nothing_and_its_new_name_is_told(
    bench: Bench, put: Put
) -> None:
    """Even when only one of several references is wrong; the answer has what is needed to go on."""
    path = put("f", "".join(f"line {number}\n" for number in range(1, 10)))
    shown = names(await bench.text("read", path="f"))
    path.write_text(path.read_text().replace("line 5", "LINE 5"))
    edits = [{"op": "replace", "pos": shown[0], "lines": ["x"]}, {"op": "replace", "pos": shown[4], "lines": ["y"]}]
    refusal = await bench.refusal("hashline_edit", path="f", edits=edits)

    assert path.read_text().startswith("line 1\n")
    assert "Nothing was changed" in refusal
    assert names(refusal) == [
        reference(number, f"LINE {number}" if number == 5 else f"line {number}") for number in range(3, 8)
    ]
    fresh = names(refusal)[2]
    await bench.call("hashline_edit", path="f", edits=[{"op": "replace", "pos": fresh, "lines": ["y"]}])
    assert "y\n" in path.read_text()


async def test_line_ends_and_encoding_stay(bench: Bench, put: Put) -> None:
    """CRLF, a byte order mark, another encoding, a last line without an end."""
    path = put("f", b"\xef\xbb\xbfa\r\nb\r\nc")
    a, b, c = names(await bench.text("read", path="f"))
    await bench.call(
        "hashline_edit",
        path="f",
        edits=[{"op": "replace", "pos": b, "lines": ["B1", "B2"]}, {"op": "append", "pos": c, "lines": ["d"]}],
    )
    assert path.read_bytes() == b"\xef\xbb\xbfa\r\nB1\r\nB2\r\nc\r\nd"
    old = put("old", "größe\n".encode("latin-1"))
    (line, *_rest) = names(await bench.text("read", path="old"))
    await bench.call("hashline_edit", path="old", edits=[{"op": "replace", "pos": line, "lines": ["Größe"]}])
    assert old.read_bytes() == "Größe\n".encode("latin-1")
    refusal = await bench.refusal("hashline_edit", path="old", edits=[{"op": "prepend", "lines": ["\u6f22"]}])
    assert "which has no" in refusal
    assert a


async def test_an_empty_file_and_what_changes_nothing(bench: Bench, put: Put) -> None:
    """Lines can be put into an empty file; edits that change nothing are counted, and refused when alone."""
    path = put("f", "")
    await bench.call("hashline_edit", path="f", edits=[{"op": "append", "lines": ["x", "y"]}])
    assert path.read_text() == "x\ny"
    x, y = names(await bench.text("read", path="f"))
    same = {"op": "replace", "pos": x, "lines": ["x"]}
    assert "No changes made" in await bench.refusal("hashline_edit", path="f", edits=[same])
    result = await bench.call("hashline_edit", path="f", edits=[same, {"op": "replace", "pos": y}])
    assert "1 changed nothing" in text_of(result)
    assert path.read_text() == "x\n"


@pytest.mark.parametrize(
    ("edits", "reason"),
    [
        (None, "list of at least one"),
        ([], "list of at least one"),
        ([3], "edits[0] must be an object"),
        ([{"op": "swap"}], "op must be one of"),
        ([{"op": "replace", "lines": ["x"]}], "pos is required"),
        ([{"op": "replace", "pos": "5"}], "reference such as 5#ZP"),
        ([{"op": "replace", "pos": "0#ZZ"}], "reference such as 5#ZP"),
        ([{"op": "replace", "pos": 5}], "reference such as 5#ZP"),
        ([{"op": "append", "pos": "1#ZZ", "end": "2#ZZ", "lines": ["x"]}], "goes with replace only"),
        ([{"op": "replace", "pos": "3#ZZ", "end": "2#ZZ"}], "lies before"),
        ([{"op": "append", "pos": "1#ZZ"}], "lines is required"),
        ([{"op": "append", "lines": ["a\nb"]}], "one line, without its end"),
        ([{"op": "append", "lines": [1]}], "list of strings"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(edits: Any, reason: str) -> None:
    """The text says which edit and which field."""
    with pytest.raises(BadHashline) as caught:
        edits_of(edits)
    assert reason in str(caught.value)


def test_two_edits_of_the_same_lines_are_refused() -> None:
    """Whichever of them came first; at one place several insertions stand in their order."""
    text = "a\nb\nc\n"
    first = HashlineEdit("replace", (1, letters_of(1, "a")), (2, letters_of(2, "b")), ("x",))
    second = HashlineEdit("replace", (2, letters_of(2, "b")), None, ("y",))
    with pytest.raises(BadHashline, match="same lines"):
        plan(text, [first, second])
    ends = [HashlineEdit("append", (3, letters_of(3, "c")), None, (each,)) for each in "12"]
    (change,), _same = plan(text, ends)
    assert change.new == "1\n2\n"


LINE = st.text(st.characters(exclude_characters="\n\r", exclude_categories=["Cs"]), max_size=6)


@given(st.lists(LINE, max_size=8), st.sampled_from(["\n", "\r\n"]), st.booleans(), st.data())
def test_edits_by_name_do_what_they_say_to_a_list_of_lines(
    lines: list[str], newline: str, ended: bool, data: st.DataObject
) -> None:
    """Whatever the lines and the edits, the file afterwards has the lines that the same edits make of a list."""
    text = newline.join(lines) + (newline if ended and lines else "")
    numbered = Lines(text)
    count = numbered.last if text else 0
    chosen = data.draw(st.lists(st.integers(1, count), unique=True, max_size=4)) if count else []
    edits, expected = [], {number: [numbered.line(number)] for number in range(1, count + 1)}
    for number in chosen:
        new = tuple(data.draw(st.lists(LINE, min_size=1, max_size=3)))
        op = data.draw(st.sampled_from(["replace", "append", "prepend", "delete"]))
        name = (number, letters_of(number, numbered.line(number)))
        edits.append(HashlineEdit("replace" if op == "delete" else op, name, None, () if op == "delete" else new))
        old = expected[number]
        expected[number] = {"replace": [*new], "append": [*old, *new], "prepend": [*new, *old], "delete": []}[op]
    changes, _same = plan(text, edits)
    after, at = "", 0
    for change in changes:
        after += text[at : change.start] + change.new
        at = change.end
    after += text[at:]
    wanted = [line for number in sorted(expected) for line in expected[number]]
    joined = "\n".join(wanted)
    assert after.replace("\r\n", "\n") in (joined, joined + "\n")
    assert "\r\n" not in after or newline == "\r\n"
