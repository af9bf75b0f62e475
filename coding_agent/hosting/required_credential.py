"""Edge. Whether a prompt could be answered at all: a model whose provider wants a key needs one."""

from typing import TYPE_CHECKING

from coding_agent import client
from coding_agent.errors import BadUsage
from lemon_ai import KEY_VARIABLES, MissingCredential, canonical, find_api_key, key_variables
from lemon_otp import Pid

if TYPE_CHECKING:
    from coding_agent.hosting.running import HostRun


async def require_credential(host: "HostRun", session: Pid) -> None:
    """Return when the session's model can be asked, or when that cannot be known before it is.

    Raises:
        BadUsage: There is no key for its provider; the text says how to give one.
    """
    if host.settings.base_url is not None:
        return
    options = await client.get_options(session)
    provider = canonical(options.model.provider)
    override = host.known.catalog.overrides.get(provider)
    if provider not in KEY_VARIABLES or (override is not None and override.base_url):
        return
    if find_api_key(options.model, options.stream_options) is None and not host.known.credentials.has(provider):
        missing = MissingCredential(provider=provider, variables=key_variables(provider))
        raise BadUsage(f"{missing} `login {provider}` stores one.") from missing
