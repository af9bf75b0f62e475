"""Who may import whom, and who makes tasks."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("lemon_otp", "lemon_ai", "lemon_agent", "coding_agent")
TASK_MAKERS = {"create_task", "ensure_future", "TaskGroup", "run_coroutine_threadsafe"}


def sources() -> list[Path]:
    return [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.requirement("AI-1")
def test_the_four_floors_are_imported_in_one_direction():
    """coding_agent may use lemon_agent, lemon_agent lemon_ai, lemon_ai lemon_otp; never the other way round."""
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr


def test_only_the_process_module_makes_asyncio_tasks():
    """Work beside other work is a process somebody supervises; `lemon_otp/process.py` is the one exception."""
    made = [
        f"{relative(path)}:{node.lineno}"
        for path in sources()
        if relative(path) != "lemon_otp/process.py"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in TASK_MAKERS
    ]

    assert made == []


def test_other_packages_are_imported_by_their_roots():
    """A package is used through its table of contents (or its `testing`, or `lemon_ai.auth`): its inside can move."""
    inside = []
    for path in sources():
        package = path.relative_to(ROOT).parts[0]
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.ImportFrom) or node.module is None or node.level:
                continue
            top, _, rest = node.module.partition(".")
            if top in PACKAGES and top != package and rest not in ("", "testing", "auth"):
                inside.append(f"{relative(path)}:{node.lineno} {node.module}")

    assert inside == []


def test_no_module_of_the_packages_is_part_of_an_import_cycle():
    """Package roots apart, no module can reach itself through what it imports at run time."""
    import grimp

    graph = grimp.build_graph(*PACKAGES, cache_dir=None, exclude_type_checking_imports=True)
    roots = {module for module in graph.modules if (ROOT / module.replace(".", "/") / "__init__.py").exists()}
    edges = {m: graph.find_modules_directly_imported_by(m) - roots for m in graph.modules - roots}

    assert cycles(edges) == []


ONE_WAY = tuple(f"coding_agent.{name}." for name in ("hosting", "rpc", "extensions", "mcp", "serving", "acp"))


def test_what_serves_clients_depends_in_one_direction_also_in_its_types():
    """No module that opens sessions or speaks for them can reach itself, not even by what it names in annotations."""
    import grimp

    graph = grimp.build_graph(*PACKAGES, cache_dir=None, exclude_type_checking_imports=False)
    roots = {module for module in graph.modules if (ROOT / module.replace(".", "/") / "__init__.py").exists()}
    edges = {m: graph.find_modules_directly_imported_by(m) - roots for m in graph.modules - roots}

    assert [module for module in cycles(edges) if module.startswith(ONE_WAY)] == []


def cycles(edges: dict[str, set[str]]) -> list[str]:
    """Modules that reach themselves."""

    def reaches_itself(start: str) -> bool:
        seen: set[str] = set()
        stack = list(edges[start])
        while stack:
            module = stack.pop()
            if module == start:
                return True
            if module not in seen:
                seen.add(module)
                stack.extend(edges.get(module, ()))
        return False

    return sorted(module for module in edges if reaches_itself(module))
