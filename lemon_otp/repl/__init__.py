"""A running tree, looked into from a prompt: `await serve(path)` in the program, `python -m lemon_otp.repl` beside it.

Inside the program `run_command("tree")` gives the same text. Packages above add what they know with `add_operation`.
"""

from lemon_otp.repl.answering import ask, wanted
from lemon_otp.repl.catalogue import add_operation, find_operation, operations
from lemon_otp.repl.connections import Taken
from lemon_otp.repl.details import Detail, add_details
from lemon_otp.repl.finding import tree_id
from lemon_otp.repl.from_thread import FromThread, LoopHeld
from lemon_otp.repl.inside import run_command, serve
from lemon_otp.repl.operations import Answer, Emit, Later, Operation, Refusal
from lemon_otp.repl.private_socket import UnsafeFolder, bind_private, peer_uid, private_folder
from lemon_otp.repl.serving import ControlSocket
from lemon_otp.repl.wire import VERSION, BadRequest, encode, failure

__all__ = [
    "VERSION",
    "Answer",
    "BadRequest",
    "ControlSocket",
    "Detail",
    "Emit",
    "FromThread",
    "Later",
    "LoopHeld",
    "Operation",
    "Refusal",
    "Taken",
    "UnsafeFolder",
    "add_details",
    "add_operation",
    "ask",
    "bind_private",
    "encode",
    "failure",
    "find_operation",
    "operations",
    "peer_uid",
    "private_folder",
    "run_command",
    "serve",
    "tree_id",
    "wanted",
]
