"""Value. The operations that every tree answers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

from lemon_otp import introspect
from lemon_otp.repl.operations import Answer, Later, Operation


def _tree(_: Mapping[str, Any]) -> Later:
    nodes = introspect.tree()

    def finish() -> Answer:
        return {
            "os_pid": os.getpid(),
            "text": introspect.render(nodes),
            "tree": [introspect.to_json(node) for node in nodes],
        }

    return Later(finish)


BUILT_IN: Final[Mapping[str, Operation]] = {
    operation.name: operation for operation in (Operation("tree", _tree, summary="What runs, as a tree."),)
}
