"""Pure. Where GitHub Copilot is asked: a token says which of its servers it is for."""

from __future__ import annotations

import re
from typing import Final

from lemon_ai.environment import canonical
from lemon_ai.provider import ProviderRequest

INDIVIDUAL: Final = "https://api.individual.githubcopilot.com"
"""The address of the catalogue's models; a token of a company's account names another."""


def address_of_token(request: ProviderRequest) -> str | None:
    """The address in a call's token; None where it names none, or the caller says where to ask."""
    model = request.model
    if canonical(model.provider) != "github_copilot" or model.base_url.rstrip("/") not in ("", INDIVIDUAL):
        return None
    found = re.search(r"(?:^|;)proxy-ep=([A-Za-z0-9.-]+)(?:;|$)", request.options.api_key or "")
    return f"https://{re.sub('^proxy[.]', 'api.', found.group(1))}" if found else None
