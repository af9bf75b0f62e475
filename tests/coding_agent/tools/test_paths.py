"""The guard for paths: where paths really lead, and what may be done there."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coding_agent.tools.paths import AccessRequest, PathGuard, Policy, contains, other_spelling, protected_folder
from lemon_agent import ToolError
from tests.coding_agent.tools.support import Bench, open_descriptors

Put = Callable[[str, str | bytes], Path]


async def test_paths_inside_are_admitted_however_they_are_written(folder: Path, put: Put) -> None:
    """Relative, absolute, with dots, and over links that stay inside: all lead to the same file."""
    put("a/b.txt", "x")
    (folder / "link").symlink_to("a")
    (folder / "absolute").symlink_to(folder / "a" / "b.txt")
    guard = PathGuard(folder)

    for path in ("a/b.txt", str(folder / "a/b.txt"), "./a/../a//b.txt", "link/b.txt", "absolute", "link/../a/b.txt"):
        with guard.locate(path) as place:
            assert place.real == str(folder.resolve() / "a/b.txt")
            assert place.shown == "a/b.txt"
            await guard.admit(place, "write")


@pytest.mark.parametrize(
    "path",
    ["../outside.txt", "/etc/passwd", "~", "a/../../outside.txt", "out/x", "dangling", "deep/er/out", "/"],
)
async def test_paths_that_lead_outside_are_asked_for_and_denied_when_nobody_is_there(
    folder: Path, put: Put, path: str
) -> None:
    """Dots, absolute paths, links, links over links and dangling links: where they end counts, not how they look."""
    put("a/x", "x")
    put("deep/x", "x")
    (folder / "out").symlink_to(folder.parent)
    (folder / "dangling").symlink_to(folder.parent / "not-there")
    (folder / "deep" / "er").symlink_to(folder / "out")
    (folder.parent / "out").symlink_to("/")
    guard = PathGuard(folder)

    with guard.locate(path) as place:
        assert not place.inside
        with pytest.raises(ToolError, match=r"outside the workspace.*nobody is there to allow it"):
            await guard.admit(place, "read")


@pytest.mark.requirement("BR-175")
async def test_a_link_as_the_last_part_is_not_written_through(bench: Bench) -> None:
    """A link in the workspace to a file outside, existing or not, is refused for writing, and nothing is created."""
    target = bench.folder.parent / "x"
    (bench.folder / "n.md").symlink_to(target)
    refusals = [await bench.refusal("write", path="n.md", content="new")]
    assert not target.exists()
    target.write_text("old")
    refusals.append(await bench.refusal("write", path="n.md", content="new"))
    refusals.append(await bench.refusal("edit", path="n.md", old_text="old", new_text="new"))

    assert all("outside the workspace" in refusal for refusal in refusals)
    assert target.read_text() == "old"
    assert (bench.folder / "n.md").is_symlink()


@pytest.mark.parametrize("policy", ["allow", "deny", "ask"])
@pytest.mark.parametrize("answer", [True, False])
async def test_the_policy_outside_is_followed(folder: Path, policy: Policy, answer: bool) -> None:
    """Allow does not ask, deny does not either, ask takes the answer."""
    asked: list[AccessRequest] = []

    async def approve(request: AccessRequest) -> bool:
        asked.append(request)
        return answer

    guard = PathGuard(folder, outside=policy, approve=approve)
    with guard.locate("../outside.txt") as place:
        try:
            await guard.admit(place, "read")
            allowed = True
        except ToolError:
            allowed = False

    assert allowed == (policy == "allow" or (policy == "ask" and answer))
    assert [request.path for request in asked] == ([str(folder.resolve().parent / "outside.txt")] * (policy == "ask"))


async def test_a_folder_given_for_reading_is_not_for_writing(folder: Path) -> None:
    """What may be read outside may not be changed."""
    guard = PathGuard(folder, readable=[folder.parent])
    with guard.locate("../outside.txt") as place:
        await guard.admit(place, "read")
        with pytest.raises(ToolError, match="outside the workspace"):
            await guard.admit(place, "write")


@pytest.mark.parametrize(
    "path", ["/proc/self/environ", "/dev/zero", "/sys/kernel/notes", "/proc/self/root/etc/passwd", "/dev/tcp"]
)
async def test_kernel_files_and_devices_are_refused_under_any_policy(folder: Path, path: str) -> None:
    """Even when all is allowed: these are not files, and reading them has effects or never ends."""
    guard = PathGuard(folder, outside="allow")
    with guard.locate(path) as place:
        if place.kernel:
            with pytest.raises(ToolError, match="devices and kernel files"):
                await guard.admit(place, "read")
        else:
            assert place.real == "/etc/passwd"  # what /proc/self/root leads to is judged by itself


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("", "Path is required"),
        ("  ", "Path is required"),
        ("a\0b", "NUL"),
        ("\udc80\ud800", "no file name can have"),
        ("x" * 5000, "longer than"),
        ("x" * 300, "too long"),
        ("file/x", "not a directory"),
        ("file/", None),
        ("loop", "Too many symbolic links"),
        ("missing/../../outside.txt", "File not found"),
    ],
)
def test_paths_that_cannot_be_walked_are_named(folder: Path, put: Put, path: str, reason: str | None) -> None:
    """Each has its own words."""
    put("file", "x")
    (folder / "loop").symlink_to("loop")
    guard = PathGuard(folder)
    if reason is None:
        guard.locate(path).close()
    else:
        with pytest.raises(ToolError, match=reason):
            guard.locate(path)


@pytest.mark.parametrize(
    "path",
    [".git/hooks/pre-commit", ".GIT/config", "sub/.git/config", ".g\u200dit/x", "\uff0egit/x", ".lemon/settings"],
)
async def test_writing_into_protected_folders_is_asked_for(folder: Path, path: str) -> None:
    """Hooks, configuration and our own settings make programs run: any spelling a file system may fold is known."""
    guard = PathGuard(folder)
    with guard.locate(path) as place:
        await guard.admit(place, "read")
        with pytest.raises(ToolError, match="protected folder"):
            await guard.admit(place, "write")


@pytest.mark.requirement("BR-094")
async def test_a_name_in_another_unicode_spelling_is_found(bench: Bench) -> None:
    """On disk decomposed accents and a curly apostrophe, asked for composed and plain: found, when just one fits."""
    (bench.folder / "cafe\u0301 l\u2019heure.txt").write_text("here\n")

    text = await bench.text("read", path="caf\u00e9 l'heure.txt")
    assert "1: here" in text
    assert "There is no caf\u00e9 l'heure.txt" in text

    await bench.call("write", path="caf\u00e9 l'heure.txt", content="exact\n")
    assert (bench.folder / "caf\u00e9 l'heure.txt").read_text() == "exact\n"
    assert (bench.folder / "cafe\u0301 l\u2019heure.txt").read_text() == "here\n"


@pytest.mark.requirement("BR-095")
async def test_the_exact_name_always_wins(bench: Bench) -> None:
    """Two files that differ only in the kind of space: each is read by its own name."""
    (bench.folder / "a\u00a0b.txt").write_text("no-break\n")
    (bench.folder / "a b.txt").write_text("plain\n")

    assert "1: no-break" in await bench.text("read", path="a\u00a0b.txt")
    assert "1: plain" in await bench.text("read", path="a b.txt")


def test_an_ambiguous_spelling_is_not_guessed() -> None:
    """When several names fit, none is taken."""
    assert other_spelling("a b", ["a\u00a0b", "a\u202fb"]) is None
    assert other_spelling("a b", ["a\u00a0b", "c"]) == "a\u00a0b"


async def test_a_directory_swapped_for_a_link_meanwhile_is_not_followed(folder: Path, put: Put) -> None:
    """What a place holds is the directory itself: renaming it and putting a link in its stead changes nothing."""
    put("d/f", "inside")
    evil = folder.parent / "evil"
    evil.mkdir()
    (evil / "f").write_text("outside")
    guard = PathGuard(folder)
    with guard.locate("d/f") as place:
        (folder / "d").rename(folder / "moved")
        (folder / "d").symlink_to(evil)
        fd = os.open(place.name, os.O_RDONLY, dir_fd=place.directory)
        assert os.read(fd, 100) == b"inside"
        os.close(fd)


PART = st.sampled_from(
    ["a", "b", "..", ".", "", "link", "up", "abs", "dangle", "f", "\u00e9", ".git", "x" * 50]
) | st.text(max_size=5)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(parts=st.lists(PART, max_size=8), absolute=st.booleans())
def test_no_path_gets_out_unnoticed(folder: Path, parts: list[str], absolute: bool) -> None:
    """Whatever a path is made of, what the guard calls inside is what the operating system finds inside too."""
    (folder / "a" / "b").mkdir(parents=True, exist_ok=True)
    (folder / "f").write_text("x")
    for name, target in (("link", "a/b"), ("up", ".."), ("abs", str(folder / "a")), ("dangle", "../nowhere")):
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(target)
    path = ("/" if absolute else "") + "/".join(parts)
    guard = PathGuard(folder)
    before = len(open_descriptors())
    try:
        place = guard.locate(path)
    except ToolError:
        assert len(open_descriptors()) == before
        return
    with place:
        real = os.path.realpath(os.path.join(folder, os.path.expanduser(path) if path.startswith("~") else path))
        assert place.real == real
        assert place.inside == contains(str(folder.resolve()), real)
        assert (place.status is not None) == os.path.lexists(real)
    assert len(open_descriptors()) == before


@given(st.text(max_size=20))
def test_a_protected_name_is_known_by_its_folded_form_only(name: str) -> None:
    """No other name is taken for one."""
    if name.casefold().strip(" .") not in (".git", "git", ".lemon", "lemon") and name.isascii():
        assert protected_folder(name) is None or "git" in name.lower() or "lemon" in name.lower()
