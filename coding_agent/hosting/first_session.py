"""Edge. The session a front end begins with, as the command line names it."""

import asyncio

from coding_agent import client
from coding_agent.hosting.desk import Desk
from coding_agent.hosting.host_parts import Wanted
from coding_agent.hosting.options import first_file
from coding_agent.session.protocol import SessionState


async def first_session(desk: Desk) -> SessionState:
    """Open what `--continue`, `--session` or `--fork` name, else a new session; `--name` names it.

    Raises:
        CodingAgentError: There is no such session, or it cannot be opened.
    """
    arguments = desk.host.arguments
    file = await asyncio.to_thread(first_file, desk.host)
    state = await desk.open(Wanted(file=file, resume=arguments.resume, first=True))
    if arguments.name:
        await client.append_session_name(desk.session.pid, arguments.name)
    return state
