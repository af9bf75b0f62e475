"""Edge. The program that gives up rights and becomes another one: what runs a command under Landlock.

    python -I -S landlock_main.py SPEC -- PROGRAM ARGUMENTS...

SPEC is JSON: `read`, `list`, `write` and `devices` are paths, `network` says whether there is one. What is given up
cannot be had again, neither by the program nor by anything it starts. Without these rights nothing is run: exit code
126, or 127 when there is no such program.
"""

from __future__ import annotations

import ctypes
import json
import os
import struct
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
VERSION_FLAG: Final = 1
PATH_BENEATH: Final = 1
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_FILTER = 38, 22, 2

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
MAKE_AND_REMOVE: Final = sum(1 << bit for bit in range(4, 13))
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
TCP: Final = 0b11
SCOPES: Final = 0b11
"""Abstract sockets of, and signals to, programs outside."""

MACHINES: Final = {"x86_64": (0xC000003E, 41), "aarch64": (0xC00000B7, 198)}
"""The name of each in the kernel's audits, and its number of `socket`."""
IO_URING_SETUP: Final = 425
ALLOW, REFUSE_SOCKET, REFUSE_CALL = 0x7FFF0000, 0x00050000 | 13, 0x00050000 | 38

libc = ctypes.CDLL(None, use_errno=True)


class NotRestricted(Exception):
    """The kernel does not do it; the text says why."""


def version() -> int:
    """Of Landlock in this kernel; 0 when there is none."""
    return max(0, int(libc.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(VERSION_FLAG))))


def rights(abi: int) -> int:
    """Everything about files that this version can take away."""
    everything = EXECUTE | WRITE_FILE | READ_FILE | READ_DIR | MAKE_AND_REMOVE
    return everything | (REFER if abi >= 2 else 0) | (TRUNCATE if abi >= 3 else 0) | (IOCTL_DEV if abi >= 5 else 0)


def restrict(spec: dict[str, Any]) -> None:
    """Give up what the spec does not name.

    Raises:
        NotRestricted: Some of it could not be.
    """
    abi = version()
    if abi < 1:
        raise NotRestricted("this kernel has no Landlock")
    handled = rights(abi)
    network = TCP if abi >= 4 and not spec["network"] else 0
    attributes = struct.pack("=QQQ", handled, network, SCOPES if abi >= 6 else 0)
    size = 8 if abi < 4 else 16 if abi < 6 else 24
    ruleset = checked(libc.syscall(CREATE_RULESET, attributes, ctypes.c_size_t(size), ctypes.c_uint32(0)))
    reading = EXECUTE | READ_FILE | READ_DIR
    for kind, granted in (
        ("read", reading),
        ("list", READ_DIR),
        ("write", handled),
        ("devices", READ_FILE | WRITE_FILE | TRUNCATE | IOCTL_DEV),
    ):
        for path in spec[kind]:
            grant(ruleset, path, granted & handled)
    checked(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    checked(libc.syscall(RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0)))
    os.close(ruleset)
    if not spec["network"]:
        refuse_sockets()


def grant(ruleset: int, path: str, granted: int) -> None:
    """Keep these rights there and below; a path that is not there has nothing to keep them on."""
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not os.path.isdir(f"/proc/self/fd/{fd}"):
            granted &= EXECUTE | READ_FILE | WRITE_FILE | TRUNCATE | IOCTL_DEV
        rule = struct.pack("=Qi", granted, fd)
        checked(libc.syscall(ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(PATH_BENEATH), rule, ctypes.c_uint32(0)))
    finally:
        os.close(fd)


def refuse_sockets() -> None:
    """No sockets from now on, whatever Landlock knows of networks; pairs of connected ones still can be made.

    Raises:
        NotRestricted: It is not known here how `socket` is called.
    """
    machine = MACHINES.get(os.uname().machine)
    if machine is None:
        raise NotRestricted(f"sockets cannot be refused on {os.uname().machine}")
    architecture, socket_number = machine
    load, equal, at_least, end = 0x20, 0x15, 0x35, 0x06
    program = [
        (load, 0, 0, 4),  # the architecture
        (equal, 1, 0, architecture),
        (end, 0, 0, REFUSE_CALL),
        (load, 0, 0, 0),  # the number of the call
        (at_least, 3, 0, 0x40000000),  # the other numbering of x86
        (equal, 2, 0, IO_URING_SETUP),
        (equal, 2, 0, socket_number),
        (end, 0, 0, ALLOW),
        (end, 0, 0, REFUSE_CALL),
        (end, 0, 0, REFUSE_SOCKET),
    ]
    code = b"".join(struct.pack("=HBBI", *step) for step in program)
    held = ctypes.create_string_buffer(code)
    header = struct.pack("@HP", len(program), ctypes.addressof(held))
    checked(libc.prctl(PR_SET_SECCOMP, SECCOMP_FILTER, ctypes.create_string_buffer(header), 0, 0))


def checked(result: int) -> int:
    if result < 0:
        raise NotRestricted(os.strerror(ctypes.get_errno()))
    return result


def main() -> None:
    spec, dashes, *command = sys.argv[1:]
    try:
        if dashes != "--":
            raise NotRestricted("no command")
        restrict(json.loads(spec))
    except (NotRestricted, OSError, ValueError, KeyError) as error:
        print(f"the sandbox cannot be set up: {error}", file=sys.stderr)
        sys.exit(126)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr)
        sys.exit(127)


if __name__ == "__main__":
    main()
