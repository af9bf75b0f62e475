"""Edge. The command line of one command: what is wrong with it is one line that says where to read more."""

import argparse
from typing import Final, NoReturn

from coding_agent.errors import BadUsage

PROGRAM: Final = "python -m coding_agent"


class CommandParser(argparse.ArgumentParser):
    """Reads a command line; raises `BadUsage` where `argparse` would print its usage and leave."""

    def error(self, message: str) -> NoReturn:
        command = self.prog.removeprefix(PROGRAM).strip()
        raise BadUsage(f"{message}; see {command} --help" if command else f"{message}; see --help")
