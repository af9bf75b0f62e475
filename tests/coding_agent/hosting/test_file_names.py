"""Paths that go on from what a person typed."""

import pytest

from coding_agent.hosting.file_names import complete_files


@pytest.fixture
def project(tmp_path):
    """A project with an ignored folder."""
    for name in ("src/main.py", "src/deep/main_test.py", "docs/Main.md", "build/main.o", ".git/config", "README.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / ".gitignore").write_text("build/\n")
    return tmp_path


def test_what_begins_so_comes_first_then_what_holds_it(project):
    """Whatever the case; folders have a slash behind them; ignored ones are left out."""
    assert complete_files(project, "src/m") == ["src/main.py"]
    assert complete_files(project, "main") == ["src/main.py", "docs/Main.md", "src/deep/main_test.py"]
    assert complete_files(project, "./do") == ["docs/", "docs/Main.md"]
    assert "build/" not in complete_files(project, "")
    assert complete_files(project, "config") == []
    assert complete_files(project, "", limit=2) == [".gitignore", "README.md"]


def test_a_path_out_of_the_folder_is_completed_where_it_leads(project, tmp_path):
    """Absolute or upwards, as it was typed."""
    assert complete_files(project / "src", "../READ") == ["../README.md"]
    assert complete_files(project, f"{tmp_path}/src/m") == [f"{tmp_path}/src/main.py"]
    assert complete_files(project, "/no/such/place/x") == []
    assert complete_files(project / "none", "x") == []
