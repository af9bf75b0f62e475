"""Value. Every exception lemon_otp raises on purpose.

OtpError
├── NoRuntime            called outside any runtime
├── NotAProcess          called from code that no process runs
├── NoProcess            a name that nobody holds
├── NoRegistry           a Via whose registry is not running
├── NameTaken            a local name that another process holds
├── AlreadyRegistered    a registry key that another process holds
├── ReceiveTimeout       no matching message came in time
├── CallFailed           the process that was called is dead, or died before it answered
│   └── CallTimeout      no answer in time; a late one is dropped
├── StartFailed          a process did not come to life
│   ├── AlreadyStarted   its name belongs to a running process
│   ├── AlreadyPresent   its id belongs to a child that is stopped
│   ├── MaxChildren      its supervisor may not have more children
│   └── ApplicationFailed  an application did not start
├── UnhandledMessage     a server was sent what it has no callback for
├── RemoteError          what a child process of the operating system raised, as text
├── BadReturn            a callback returned what none of its kind may return
├── BadChildSpec         a child specification that cannot be run
├── BadArgument          an argument outside what the function takes
├── NotFound             a supervisor has no such child
├── ChildRunning         that child runs already, or is being restarted
├── NotStarted           an application does not run
├── TooManyJobs          a job scheduler lets no more jobs wait
└── StreamFailed         an event stream ended without a result

ProcessExit stands beside the tree, on BaseException: `except Exception` must not stop a process that
wants to end, as `rescue` does not catch an exit on the BEAM.
"""

from __future__ import annotations

from typing import Any

from lemon_otp.telling import describe


class OtpError(Exception):
    """Base of every error of this package."""


class NoRuntime(OtpError):
    """There is no runtime here: enter `async with Runtime()` or use `run(main)`."""


class NotAProcess(OtpError):
    """Only a process can do this, and the calling code is not (or not the main line of) one."""


class NoProcess(OtpError):
    """No process is registered under this name.

    Attributes:
        name: The name that was asked for.
    """

    def __init__(self, name: object) -> None:
        super().__init__(f"no process is registered as {describe(name)}")
        self.name = name


class NoRegistry(OtpError):
    """No registry of this name is running.

    Attributes:
        registry: The name that was asked for.
    """

    def __init__(self, registry: object) -> None:
        super().__init__(f"no registry named {registry!r} is running")
        self.registry = registry


class NameTaken(OtpError):
    """The name belongs to another process, or the process has a name already.

    Attributes:
        name: The name that was wanted.
    """

    def __init__(self, name: object, detail: str = "is taken by another process") -> None:
        super().__init__(f"{describe(name)} {detail}")
        self.name = name


class AlreadyRegistered(OtpError):
    """The key belongs to another process.

    Attributes:
        pid: Who holds it.
    """

    def __init__(self, pid: Any) -> None:
        super().__init__(f"already registered by {describe(pid)}")
        self.pid = pid


class ReceiveTimeout(OtpError):
    """No matching message came within the time allowed. The mailbox is as it was."""


class CallFailed(OtpError):
    """The process that was called is not there, or ended before it answered.

    Attributes:
        reason: Why: "noproc", "calling_self", or the exit reason of the process.
    """

    def __init__(self, reason: Any, target: object = None) -> None:
        super().__init__(f"call to {describe(target)} failed: {describe(reason)}")
        self.reason = reason
        self.target = target


class CallTimeout(CallFailed):
    """The answer did not come in time. The request may still be served; its reply is dropped."""

    def __init__(self, target: object, timeout_s: float | None) -> None:
        super().__init__("timeout", target)
        self.timeout_s = timeout_s


class StartFailed(OtpError):
    """A process did not come to life; nothing of it is left.

    Attributes:
        reason: What its start gave as the reason; an exception is also the `__cause__`.
    """

    def __init__(self, reason: Any) -> None:
        super().__init__(f"start failed: {describe(reason)}")
        self.reason = reason


class AlreadyStarted(StartFailed):
    """The name belongs to a process that runs.

    Attributes:
        pid: That process.
    """

    def __init__(self, pid: Any) -> None:
        super().__init__(("already_started", pid))
        self.pid = pid


class AlreadyPresent(StartFailed):
    """The id belongs to a child that was started before and is stopped; it can be restarted or deleted."""

    def __init__(self) -> None:
        super().__init__("already_present")


class MaxChildren(StartFailed):
    """The supervisor has as many children as it may have. Nothing was started."""

    def __init__(self) -> None:
        super().__init__("max_children")


class ApplicationFailed(StartFailed):
    """An application did not start.

    Attributes:
        application: Its name.
    """

    def __init__(self, application: str, reason: Any) -> None:
        super().__init__(reason)
        self.args = (f"application {application!r} did not start: {describe(reason)}",)
        self.application = application


class BadReturn(OtpError):
    """A callback returned something that is none of the values it may return.

    Attributes:
        value: What it returned.
        expected: What it may return.
    """

    def __init__(self, where: str, value: object, expected: str) -> None:
        super().__init__(f"{where} returned {describe(value)}; expected {expected}")
        self.value = value
        self.expected = expected


class UnhandledMessage(OtpError):
    """A server was sent something that its class does not define the callback for."""

    def __init__(self, server: str, callback: str, message: object) -> None:
        super().__init__(f"{server} does not define {callback}, but was sent {describe(message)}")
        self.server = server
        self.callback = callback
        self.message = message


class RemoteError(OtpError):
    """An error of a child process of the operating system; its text is the traceback there."""


class BadChildSpec(OtpError):
    """A child specification that no supervisor can run.

    Attributes:
        reason: What is wrong with it, as a term.
    """

    def __init__(self, reason: Any, detail: str = "") -> None:
        super().__init__(detail or f"bad child specification: {describe(reason)}")
        self.reason = reason


class BadArgument(OtpError, ValueError):
    """An argument is outside what the function takes."""


class NotFound(OtpError):
    """The supervisor has no such child."""

    def __init__(self, child: object = None) -> None:
        super().__init__(f"no such child: {describe(child)}")
        self.child = child


class ChildRunning(OtpError):
    """The child runs already, or is being restarted.

    Attributes:
        state: "running" or "restarting".
    """

    def __init__(self, state: str = "running") -> None:
        super().__init__(f"the child is {state}")
        self.state = state


class NotStarted(OtpError):
    """An application does not run.

    Attributes:
        application: Its name.
        reason: `("not_started", application)`, or `("not_running", application)` when it ended by itself.
    """

    def __init__(self, application: str, *, ended: bool = False) -> None:
        super().__init__(f"application {application!r} does not run" + (" any more" if ended else ""))
        self.application = application
        self.reason = ("not_running" if ended else "not_started", application)


class TooManyJobs(OtpError):
    """As many background jobs wait as may wait. The one that was refused will not run.

    Attributes:
        pending_limit: How many may wait.
    """

    def __init__(self, pending_limit: int) -> None:
        super().__init__(f"{pending_limit} jobs wait already")
        self.pending_limit = pending_limit


class StreamFailed(OtpError):
    """An event stream ended without a result.

    Attributes:
        reason: Why; `("canceled", reason)` when it was canceled, "stream_closed" when its process was killed.
        partial: What there is of a result.
    """

    def __init__(self, reason: Any, partial: Any = None) -> None:
        super().__init__(f"the stream ended without a result: {describe(reason)}")
        self.reason = reason
        self.partial = partial


class ProcessExit(BaseException):
    """Ends the calling process with a reason; see `exit_process`.

    Attributes:
        reason: The exit reason of the process.
    """

    def __init__(self, reason: Any) -> None:
        super().__init__(reason)
        self.reason = reason
