"""Where a provider's key comes from. Providers get the concrete value; nothing below the host reads the environment."""

import os

from lemon_ai import environment_key


def api_key_for(provider: str) -> str | None:
    """The key for a provider from its own environment variables, in their order; None when none is set.

    A vendor's key is only ever looked up under that vendor's names, so no account's key goes to another's server.
    """
    return environment_key(provider, os.environ)
