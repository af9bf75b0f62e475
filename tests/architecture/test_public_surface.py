"""Each package's `__init__` is its table of contents, and the reference pages say the same."""

import ast
import importlib
import inspect
from pathlib import Path

import pytest

from tests.architecture import reference

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("lemon_otp", "lemon_ai", "lemon_agent", "coding_agent")


@pytest.mark.parametrize("package", PACKAGES)
def test_the_root_of_a_package_holds_nothing_but_imports_and_all(package):
    """Docstring, imports, `__all__`: whoever opens it reads what there is, and importing it runs nothing else."""
    tree = ast.parse((ROOT / package / "__init__.py").read_text())
    docstring, *rest = tree.body

    assert isinstance(docstring, ast.Expr)
    assert [
        type(node).__name__ for node in rest if not isinstance(node, ast.Import | ast.ImportFrom | ast.Assign)
    ] == []
    assert [node.targets[0].id for node in rest if isinstance(node, ast.Assign)] == ["__all__"]


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_says_what_it_is(package):
    """A class or function that users may call has a docstring of its own."""
    module = importlib.import_module(package)
    silent = []
    for name in module.__all__:
        value = getattr(module, name)
        if (inspect.isclass(value) or inspect.isfunction(value)) and not (value.__doc__ or "").strip():
            silent.append(name)

    assert silent == []


@pytest.mark.parametrize("package", PACKAGES)
def test_the_reference_page_lists_exactly_the_public_names(package):
    """`python -m tests.architecture.reference --write` makes the pages anew."""
    assert reference.page_path(package).read_text() == reference.page(package)
