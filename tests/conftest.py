"""Fixtures that every test may use."""

import os
import signal

from hypothesis import settings

from lemon_otp.testing import clocked_runtime, fake_clock, runtime

__all__ = ["clocked_runtime", "fake_clock", "runtime"]

# Started in the background or under nohup, a process ignores these, and so would every program a test starts.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# The same examples each time, so that a red run is about the change it tests.
# `HYPOTHESIS_PROFILE=fresh` looks for new ones.
settings.register_profile("steady", derandomize=True)
settings.register_profile("fresh", derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))
