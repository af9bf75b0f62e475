"""Value. Where a host's control socket is; what is said through it is `lemon_otp.repl`'s, one JSON object a line.

A question is `{"op": NAME, ...}`; the answer is `{"ok": true, ...}` or `{"ok": false, "error": TEXT}`.
"""

import os
from pathlib import Path
from typing import Final

SOCKET_PREFIX: Final = "host-"
SOCKET_SUFFIX: Final = ".sock"


def socket_path(runtime_dir: Path, os_pid: int | None = None) -> Path:
    """The socket of the host with this process id; this very process when None."""
    return runtime_dir / f"{SOCKET_PREFIX}{os.getpid() if os_pid is None else os_pid}{SOCKET_SUFFIX}"
