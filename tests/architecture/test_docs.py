"""Every block of the documentation runs, and every link between pages leads somewhere."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
PYTHON_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
SHELL_BLOCK = re.compile(r"^```sh run\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")


def blocks(pattern: re.Pattern[str]) -> list[object]:
    found = []
    for path in PAGES:
        for number, match in enumerate(pattern.finditer(path.read_text()), 1):
            found.append(pytest.param(match.group(1), id=f"{path.relative_to(ROOT)}-{number}"))
    return found


def environment(tmp_path: Path) -> dict[str, str]:
    """A person's shell without keys, with a home of its own."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "VIRTUAL_ENV") if name in os.environ}
    bin_dir = str(Path(sys.executable).parent)
    return kept | {"HOME": str(tmp_path), "PATH": f"{bin_dir}:{kept.get('PATH', '')}", "PYTHONPATH": str(ROOT)}


@pytest.mark.parametrize("code", blocks(PYTHON_BLOCK))
def test_a_python_block_of_the_documentation_runs(code, tmp_path):
    """Each block is a whole program: what a reader copies works as it stands."""
    script = tmp_path / "example.py"
    script.write_text(code)
    done = subprocess.run(
        [sys.executable, "-W", "error", str(script)],
        cwd=tmp_path,
        env=environment(tmp_path),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("code", blocks(SHELL_BLOCK))
def test_a_shell_block_of_the_documentation_runs(code, tmp_path):
    """A block marked `sh run` is typed into a shell in the checkout and ends well."""
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", code],
        cwd=ROOT,
        env=environment(tmp_path),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(path):
    """A link to a file of the repository names one that is there."""
    targets = [
        target for target in LINK.findall(path.read_text()) if "://" not in target and not target.startswith("mailto:")
    ]

    assert [target for target in targets if not (path.parent / target).exists()] == []
