"""A person with a home and a project, and their settings files."""

import json
from pathlib import Path

import pytest
from attrs import define, field

from coding_agent.settings import Settings, read_settings


@define
class Desktop:
    """A home folder and a project in it."""

    home: Path
    project: Path
    environ: dict[str, str] = field(factory=dict)

    def write(self, where: str, document) -> Path:
        """Put settings where `where` says: `pi`, `user`, `pi project`, `project`."""
        path = {
            "pi": self.home / ".pi" / "agent",
            "user": self.home / ".config" / "lemon",
            "pi project": self.project / ".pi",
            "project": self.project / ".lemon",
        }[where] / "settings.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(document if isinstance(document, str) else json.dumps(document))
        return path

    def read(self, **given) -> Settings:
        return read_settings({"HOME": str(self.home), **self.environ}, cwd=str(self.project), **given)


@pytest.fixture
def desktop(tmp_path) -> Desktop:
    (tmp_path / "home" / "project").mkdir(parents=True)
    return Desktop(tmp_path / "home", tmp_path / "home" / "project")
