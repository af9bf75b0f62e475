"""Fixtures that every test may use."""

from lemon_otp.testing import clocked_runtime, fake_clock, runtime

__all__ = ["clocked_runtime", "fake_clock", "runtime"]
