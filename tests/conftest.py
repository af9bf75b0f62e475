"""Fixtures that every test may use."""

import signal

from lemon_otp.testing import clocked_runtime, fake_clock, runtime

__all__ = ["clocked_runtime", "fake_clock", "runtime"]

# Started in the background or under nohup, a process ignores these, and so would every program a test starts.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
