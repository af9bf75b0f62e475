"""Nothing writes over the screen."""

import logging
import sys
import threading

from coding_agent.terminal.aside import everything_aside


def test_what_goes_to_standard_error_is_shown_line_by_line():
    """Prints, and loggers set up before; when it is over each writes where it wrote before."""
    logger = logging.getLogger("tests.aside")
    handler = logging.StreamHandler(sys.stderr)
    logger.addHandler(handler)
    before, shown = sys.stderr, []
    try:
        with everything_aside(shown.append):
            print("half", end="", file=sys.stderr)
            print(" a line\n", file=sys.stderr)
            logger.warning("logged")
    finally:
        logger.removeHandler(handler)

    assert shown == ["half a line", "logged"]
    assert (sys.stderr, handler.stream) == (before, before)


def test_another_thread_does_not_draw():
    """The screen is drawn by one thread; what others say goes nowhere, and harms nothing."""
    shown: list[str] = []
    with everything_aside(shown.append):
        thread = threading.Thread(target=lambda: print("from afar", file=sys.stderr))
        thread.start()
        thread.join()

    assert shown == []
