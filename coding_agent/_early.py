"""Edge. Imported before everything else: what holds while `python -m coding_agent` is still being read.

Until `__main__` is there to say what an interrupt means, it ends the program at once, without a traceback. And nothing
is imported from the working folder, which Python would look in first: a repository may hold a `yaml.py`.
"""

import os
import signal
import sys

read_as_program = sys.argv[:1] == ["-m"] and "coding_agent" in sys.orig_argv
if read_as_program and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
if read_as_program and not sys.flags.safe_path and sys.path:
    package = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    if os.path.realpath(sys.path[0]) not in (package, os.path.realpath(sys.prefix)):
        del sys.path[0]
