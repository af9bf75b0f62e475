"""`python -m coding_agent`: see `host`."""

import signal
import sys

code = 130
try:
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:  # as the package left it while it was imported
        signal.signal(signal.SIGINT, signal.default_int_handler)
    from coding_agent.host import main

    code = main()
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # all is done and stored, and the exit code is known
except KeyboardInterrupt:
    pass
sys.exit(code)
