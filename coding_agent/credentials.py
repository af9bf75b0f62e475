"""Which providers have a key in the environment.

The key itself is looked up by `lemon_ai` for each request, under the names of the provider that gets it, so that no
account's key goes to another's server.
"""

import os

from lemon_ai import key_variables


def has_key(provider: str) -> bool:
    """Is one of the provider's own variables set?"""
    return any(os.environ.get(name) for name in key_variables(provider))
