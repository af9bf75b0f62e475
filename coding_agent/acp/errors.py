"""Pure. What went wrong, as an error of JSON-RPC with the protocol's codes."""

import logging
from typing import Any, Final

from coding_agent.errors import (
    BadUsage,
    CodingAgentError,
    NoSuchSession,
    SessionBusy,
    SessionNotFound,
    SessionNotRunning,
)
from lemon_ai import AuthFailed, MissingCredential
from lemon_otp import CallFailed, error_line, error_trace, reason_words

METHOD_NOT_FOUND: Final = -32601
INVALID_REQUEST: Final = -32600
INVALID_PARAMS: Final = -32602
INTERNAL: Final = -32603
AUTH_REQUIRED: Final = -32000
NOT_FOUND: Final = -32002

_log: Final = logging.getLogger(__name__)


def failure_of(error: Exception, method: str) -> dict[str, Any]:
    """The `error` of a response."""
    from acp.exceptions import RequestError
    from pydantic import ValidationError

    match error:
        case RequestError():
            data = {} if error.data is None else {"data": error.data}
            return {"code": error.code, "message": str(error), **data}
        case ValidationError():
            found = [
                {"at": ".".join(map(str, each["loc"])), "problem": each["msg"]}
                for each in error.errors(include_url=False, include_context=False, include_input=False)[:20]
            ]
            return {"code": INVALID_PARAMS, "message": f"the parameters of {method} do not fit", "data": found}
        case CodingAgentError(__cause__=AuthFailed() | MissingCredential()):
            return {"code": AUTH_REQUIRED, "message": str(error)}
        case NoSuchSession() | SessionNotFound() | SessionNotRunning():
            return {"code": NOT_FOUND, "message": str(error)}
        case SessionBusy():
            return {"code": INVALID_REQUEST, "message": str(error)}
        case BadUsage():
            return {"code": INVALID_PARAMS, "message": str(error)}
        case CodingAgentError():
            return {"code": INTERNAL, "message": str(error)}
        case CallFailed():
            return {"code": INTERNAL, "message": f"the session has ended: {reason_words(error.reason)}"}
        case OSError():
            return {"code": INTERNAL, "message": f"{error.filename or ''}: {error.strerror or error}".lstrip(": ")}
        case _:
            _log.error("the request %s failed\n%s", method, error_trace(error))
            return {"code": INTERNAL, "message": error_line(error)}
