"""Where extensions are found, which are not run, and what their registration may do."""

import py_compile
import sys
from pathlib import Path

import pytest
from attrs import evolve

from coding_agent.errors import BadUsage
from coding_agent.extensions.runner import Extensions
from coding_agent.resources.extension_files import installed, sources
from coding_agent.settings import ResourceChoices, Settings

GOOD = "def extension(lemon):\n    lemon.register_command({name!r}, lambda args, session: args)\n"


@pytest.fixture
def settings(tmp_path, monkeypatch) -> Settings:
    for name in ("home/.config/lemon/extensions", "project/.lemon/extensions"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.setattr(sys, "path", [])
    return Settings(tmp_path / "project", tmp_path / "s", tmp_path / "r", home=tmp_path / "home")


def put(folder: Path, name: str, text: str | None = None) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(GOOD.format(name=path.stem) if text is None else text)
    return path


def named(settings: Settings, *paths: str) -> Settings:
    return evolve(settings, resources=ResourceChoices(extensions=paths))


def commands(settings: Settings, *, trusted: bool = False) -> list[str]:
    return list(Extensions.load(settings, trusted=trusted).commands)


def test_a_persons_own_are_loaded_and_a_projects_only_when_it_is_trusted(settings):
    """A file, or a folder with `extension.py`; hidden and private ones are not."""
    put(settings.config_dir / "extensions", "mine.py")
    put(settings.config_dir / "extensions", "folder/extension.py")
    put(settings.config_dir / "extensions", "_private.py")
    put(settings.config_dir / "extensions", "notes.txt")
    put(settings.cwd / ".lemon" / "extensions", "theirs.py")
    assert commands(settings) == ["extension", "mine"]
    assert commands(settings, trusted=True) == ["extension", "mine", "theirs"]


def test_those_that_are_named_are_loaded_and_left_out_ones_are_not(settings, tmp_path):
    """With `-` or `!` in front a name is left out; one that is not there is said."""
    put(settings.config_dir / "extensions", "mine.py")
    other = put(tmp_path, "other.py")
    chosen = named(settings, str(other), f"-{tmp_path}/mine", str(tmp_path / "nowhere.py"))
    extensions = Extensions.load(chosen, trusted=False)
    assert list(extensions.commands) == ["other"]
    assert extensions.problems == [f"there is no extension at {tmp_path / 'nowhere.py'}"]
    switched_off = evolve(settings, resources=ResourceChoices(extensions=(str(other),), use_extensions=False))
    assert commands(switched_off) == ["other"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def extension(lemon:\n", "SyntaxError"),
        ("import nowhere_at_all\n", "ModuleNotFoundError"),
        ("def extension(lemon):\n    raise RuntimeError('oops')\n", "RuntimeError: oops"),
        ("def extension(lemon):\n    raise SystemExit\n", "SystemExit"),
        ("def extension(lemon):\n    lemon.on('nothing', print)\n", "no event 'nothing'"),
        ("x = 1\n", "no function extension"),
        ("\0", "ValueError"),
    ],
)
def test_one_that_cannot_be_loaded_is_said_and_the_others_are_there(settings, text, said):
    """Nothing of it counts."""
    put(settings.config_dir / "extensions", "bad.py", text)
    put(settings.config_dir / "extensions", "good.py")
    extensions = Extensions.load(settings, trusted=False)
    assert list(extensions.commands) == ["good"]
    assert said in extensions.problems[0] or "SyntaxError" in extensions.problems[0]
    assert "bad" in extensions.problems[0]


def test_a_compiled_file_beside_it_is_not_run_and_none_is_written(settings):
    """Whoever could put one there could run anything under a text somebody has looked at."""
    path = put(
        settings.config_dir / "extensions", "mine.py", "def extension(lemon):\n    lemon.register_flag('evil')\n"
    )
    py_compile.compile(str(path), doraise=True)
    stamp = path.stat()
    path.write_text("def extension(lemon):\n    lemon.register_flag('good')\n")
    import os

    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    extensions = Extensions.load(settings, trusted=False)
    assert [list(each.flags) for each in extensions.loaded] == [["good"]]
    put(settings.config_dir / "extensions", "other/extension.py")
    Extensions.load(settings, trusted=False)
    assert not (settings.config_dir / "extensions" / "other" / "__pycache__").exists()


def test_what_is_installed_is_looked_for_outside_of_the_project_only(settings, tmp_path):
    """A repository may hold a folder that looks like an installed package, and Python looks in it first."""
    text = "[console_scripts]\nx = a:b\n\n[lemon.extensions]\ngood = some.module:register\n# no = c\n[other]\ny = d\n"
    put(tmp_path / "site", "good-1.dist-info/entry_points.txt", text)
    put(tmp_path / "site", "plain-1.dist-info/entry_points.txt", "[console_scripts]\nx = a:b\n")
    put(settings.cwd, "evil-1.dist-info/entry_points.txt", text.replace("good", "evil"))
    found = installed(["", str(settings.cwd), str(tmp_path / "site"), str(tmp_path / "nowhere")], settings.cwd)
    assert [(source.name, source.path) for source in found] == [("good", "some.module:register")]


def test_two_that_want_one_name_are_told_apart(settings):
    """The first keeps it."""
    for name in ("a", "b"):
        put(
            settings.config_dir / "extensions",
            f"{name}.py",
            "def extension(lemon):\n    lemon.register_command('same', print)\n    lemon.register_flag('same')\n",
        )
    extensions = Extensions.load(settings, trusted=False)
    assert extensions.commands["same"][0].name == "a"
    assert [problem.split(": ", 1)[1].split(" is ")[0] for problem in extensions.problems] == ["/same", "--same"]


def test_flags_nobody_else_knows_go_to_the_extension_that_does(settings):
    """A value stands behind `=`; whatever is wrong is bad usage."""
    put(
        settings.config_dir / "extensions",
        "a.py",
        "def extension(lemon):\n"
        "    lemon.register_flag('loud')\n"
        "    lemon.register_flag('voice', str, default='low')\n",
    )
    extensions = Extensions.load(settings, trusted=False)
    (extension,) = extensions.loaded
    assert (extension.flag("loud"), extension.flag("voice"), extension.flag("none")) == (False, "low", None)
    extensions.take_flags(["--loud", "--voice=high"])
    assert (extension.flag("loud"), extension.flag("voice")) == (True, "high")
    for words in (["--nobody"], ["--voice"], ["--loud=yes"]):
        with pytest.raises(BadUsage):
            extensions.take_flags(words)


def test_skills_and_templates_of_extensions_are_read_too(settings):
    """`resources_discover`; one that fails is said."""
    put(
        settings.config_dir / "extensions",
        "a.py",
        "def extension(lemon):\n"
        "    lemon.on('resources_discover', lambda event: {'skill_paths': [event.cwd + '/more']})\n"
        "    lemon.on('resources_discover', lambda event: 1 / 0)\n",
    )
    extensions = Extensions.load(settings, trusted=False)
    assert extensions.with_places(settings).resources.skills == (f"{settings.cwd}/more",)
    assert "ZeroDivisionError" in extensions.problems[0]


def test_one_that_never_names_its_skills_is_passed_over_and_said(settings):
    """The start waits for it for a bounded time."""
    put(
        settings.config_dir / "extensions",
        "a.py",
        "import threading\ndef extension(lemon):\n"
        "    lemon.on('resources_discover', lambda event: threading.Event().wait())\n"
        "    lemon.on('resources_discover', lambda event: {'prompt_paths': ['/more']})\n",
    )
    extensions = Extensions.load(settings, trusted=False)
    extensions.discover_s = 0.05
    assert extensions.with_places(settings).resources.templates == ("/more",)
    assert "did not answer within 0.05 seconds" in extensions.problems[0]


@pytest.mark.requirement("BR-152")
def test_an_async_answer_where_nothing_can_be_waited_for_is_no_answer(settings):
    """A coroutine is not taken for a yes; it is said."""
    put(
        settings.config_dir / "extensions",
        "a.py",
        "async def later(event):\n    return {'skill_paths': ['x']}\n"
        "def extension(lemon):\n    lemon.on('resources_discover', lambda event: later(event))\n",
    )
    extensions = Extensions.load(settings, trusted=False)
    assert extensions.with_places(settings).resources.skills == ()
    assert "make it a plain function" in extensions.problems[0]


def test_extensions_hear_of_each_other(settings):
    """Over one bus; a listener that fails keeps nobody from hearing."""
    put(
        settings.config_dir / "extensions",
        "a.py",
        "def extension(lemon):\n    lemon.events.on('news', lambda value: 1 / 0)\n",
    )
    put(settings.config_dir / "extensions", "b.py", "def extension(lemon):\n    pass\n")
    first, second = Extensions.load(settings, trusted=False).loaded
    heard = []
    stop = first.events.on("news", heard.append)
    second.events.emit("news", 1)
    stop()
    second.events.emit("news", 2)
    assert heard == [1]


def test_a_start_without_any_finds_none(settings):
    """And imports nothing of the extensions' package for it."""
    assert list(sources(settings, trusted=True, problems=[])) == []
