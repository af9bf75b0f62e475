"""What is switched on in a terminal is switched off."""

import os
import pty
import termios
import tty

import pytest

from coding_agent.terminal.modes import MODES, TerminalModes


@pytest.mark.requirement("BR-165")
def test_off_undoes_on_and_can_be_called_at_any_time():
    """Attributes as they were found, each mode that was set unset, once; before it is on nothing is done."""
    master, slave = pty.openpty()
    try:
        before = termios.tcgetattr(slave)
        written: list[bytes] = []
        modes = TerminalModes(slave, slave, write=lambda _fd, data: written.append(data))
        modes.off()
        assert written == []
        modes.on()
        tty.setraw(slave)
        modes.off()
        modes.off()
        assert termios.tcgetattr(slave) == before
        assert len(written) == 2
        for on, off in MODES:
            assert on.encode() in written[0]
            assert off.encode() in written[1]
    finally:
        os.close(master)
        os.close(slave)


@pytest.mark.requirement("BR-165")
def test_a_terminal_that_is_gone_harms_nothing():
    """Closed, or no terminal at all: nothing is raised while the program ends."""
    reading, writing = os.pipe()
    os.close(reading)
    modes = TerminalModes(writing, writing)
    try:
        modes.on()
        modes.off()
    finally:
        os.close(writing)
    modes.off()
