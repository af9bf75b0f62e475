"""Edge. What a child process of the operating system runs for `spawn(..., on="process")`.

Run by path, so that nothing of the package is imported that the function itself does not need. It reads what
to do from one inherited pipe and writes what came of it to another. The first pipe stays open as long as the
parent lives: when it ends, so does the child, with everything in its process group.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
import traceback
from typing import BinaryIO


def main(orders_fd: int, results_fd: int) -> None:
    """Do the one thing that stands in the orders, write the outcome and end."""
    for descriptor in (orders_fd, results_fd):
        os.set_inheritable(descriptor, False)  # what the function starts must not keep our pipes open
    with os.fdopen(orders_fd, "rb", buffering=0) as orders, os.fdopen(results_fd, "wb") as results:
        preparation, work = _read(orders), _read(orders)
        threading.Thread(target=_end_with_parent, args=(orders_fd,), daemon=True).start()
        outcome = _outcome(preparation, work)
        results.write(len(outcome).to_bytes(8, "big"))
        results.write(outcome)
        results.flush()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def _read(orders: BinaryIO) -> bytes:
    size = int.from_bytes(_exactly(orders, 8), "big")
    return _exactly(orders, size)


def _exactly(orders: BinaryIO, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = orders.read(size - len(parts))
        if not part:
            os._exit(1)  # the parent is gone
        parts += part
    return bytes(parts)


def _end_with_parent(orders_fd: int) -> None:
    os.read(orders_fd, 1)
    os.killpg(0, signal.SIGKILL)


def _outcome(preparation: bytes, work: bytes) -> bytes:
    """("value", result), ("exit", reason) or ("error", exception or None, text), pickled."""
    from multiprocessing import spawn

    try:
        spawn.prepare(pickle.loads(preparation))
        fn, args = pickle.loads(work)
        return pickle.dumps(("value", fn(*args)))
    except SystemExit as leaving:
        return pickle.dumps(("exit", "normal" if not leaving.code else ("exit_status", leaving.code)))
    except BaseException as error:
        text = "".join(traceback.format_exception(error))
        if type(error).__name__ == "ProcessExit" and hasattr(error, "reason"):
            return pickle.dumps(("exit", error.reason))
        try:
            return _checked(("error", error, text))
        except Exception:
            return pickle.dumps(("error", None, text))


def _checked(outcome: tuple[object, ...]) -> bytes:
    """Pickled, and known to come back: an exception may be picklable and yet not loadable."""
    pickled = pickle.dumps(outcome)
    pickle.loads(pickled)
    return pickled


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
