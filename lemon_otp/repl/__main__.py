"""`python -m lemon_otp.repl`."""

import sys

from lemon_otp.repl_shell.main import main

if __name__ == "__main__":
    sys.exit(main())
