"""Edge. Imported before everything else: what an interrupt does while `python -m coding_agent` is still being read.

Until `__main__` is there to say what it means, it ends the program at once, without a traceback.
"""

import signal
import sys

read_as_program = sys.argv[:1] == ["-m"] and "coding_agent" in sys.orig_argv
if read_as_program and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
