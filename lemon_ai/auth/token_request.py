"""Edge. The HTTP of logging in: a form or a JSON document posted, an object got back, failures in our classes."""

import json
from collections.abc import Mapping
from typing import Any, Final

from lemon_ai.classify import http_error
from lemon_ai.errors import ServerFailed
from lemon_ai.network import check_reachable, is_loopback
from lemon_ai.providers.http import wire_error

TIMEOUT_S: Final = 30.0


async def post_form(
    provider: str, url: str, form: Mapping[str, str], *, headers: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """The object a server answers to a form.

    Raises:
        ProviderError: It refused, answered no JSON object, did not answer, or may not be reached (`Offline`). No secret
            of `form` is in the message.
    """
    return await _send(provider, "POST", url, headers or {}, {"data": dict(form)}, frozenset(form.values()))


async def post_json(
    provider: str, url: str, body: Mapping[str, Any], *, headers: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """The object a server answers to a JSON document. Raises as `post_form` does."""
    secrets = frozenset(value for value in body.values() if isinstance(value, str))
    return await _send(provider, "POST", url, headers or {}, {"json": dict(body)}, secrets)


async def get_json(provider: str, url: str, *, headers: Mapping[str, str]) -> dict[str, Any]:
    """The object at an address. Raises as `post_form` does."""
    return await _send(provider, "GET", url, headers, {}, frozenset())


async def _send(
    provider: str,
    method: str,
    url: str,
    headers: Mapping[str, str],
    content: Mapping[str, Any],
    secrets: frozenset[str],
) -> dict[str, Any]:
    import httpx

    check_reachable(provider, url)
    secrets |= frozenset(value.removeprefix("Bearer ") for value in headers.values())
    try:
        # Reading the certificates takes longer than a plain call on this machine.
        verify = not url.startswith("http:")
        async with httpx.AsyncClient(timeout=TIMEOUT_S, verify=verify, trust_env=not is_loopback(url)) as client:
            answer = await client.request(method, url, headers={"accept": "application/json", **headers}, **content)
    except Exception as error:
        raise wire_error(provider, url, error, secrets) from error
    if not answer.is_success:
        raise http_error(provider, answer.status_code, answer.content, answer.headers, secrets=secrets)
    try:
        parsed = json.loads(answer.content)
    except ValueError:
        parsed = None
    if not isinstance(parsed, dict):
        raise ServerFailed(provider=provider, message="The login server answered something that is no JSON object.")
    return parsed
