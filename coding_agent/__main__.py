"""`python -m coding_agent`: see `host`."""

import sys

from coding_agent.host import main

sys.exit(main())
