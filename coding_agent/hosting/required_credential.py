"""Edge. Whether a prompt could be answered at all: a model whose provider wants a key needs one."""

from coding_agent import client
from coding_agent.errors import BadUsage
from coding_agent.hosting.host_parts import Host
from lemon_ai import (
    KEY_VARIABLES,
    MissingCredential,
    Model,
    StreamOptions,
    canonical,
    find_api_key,
    key_variables,
)
from lemon_otp import Pid


async def require_credential(host: Host, session: Pid) -> None:
    """Return when the session's model can be asked, or one that stands in for it, or when that is not known before.

    Raises:
        BadUsage: There is no key for its provider; the text says how to give one.
    """
    if host.settings.base_url is not None:
        return
    options = await client.get_options(session)
    others = (candidate.model or options.model for candidate in options.fallback)
    if any(_has_key(host, model, options.stream_options) for model in (options.model, *others)):
        return
    provider = canonical(options.model.provider)
    missing = MissingCredential(provider=provider, variables=key_variables(provider))
    raise BadUsage(f"{missing} `login {provider}` stores one.") from missing


def _has_key(host: Host, model: Model, options: StreamOptions) -> bool:
    """Could a call of this model be made, as far as can be known?"""
    provider = canonical(model.provider)
    override = host.known.catalog.overrides.get(provider)
    if provider not in KEY_VARIABLES or (override is not None and override.base_url):
        return True
    return find_api_key(model, options) is not None or host.known.credentials.has(provider)
