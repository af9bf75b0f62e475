"""The ops of the scenario language, by area. Importing an area registers its ops."""

from importlib import import_module
from typing import Final

AREAS: Final = (
    "applications",
    "control",
    "processes",
    "registries",
    "servers",
    "streams",
    "supervisors",
    "tables",
    "tasks",
)


def load_ops() -> None:
    """Register every op."""
    for area in AREAS:
        import_module(f"tests.conformance.ops.{area}")
