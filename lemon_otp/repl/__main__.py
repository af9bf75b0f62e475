"""`python -m lemon_otp.repl`."""

import sys

from lemon_otp.repl.main import main

if __name__ == "__main__":
    sys.exit(main())
