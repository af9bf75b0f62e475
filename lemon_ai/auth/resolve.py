"""Edge. A kept secret to the key a call is made with, renewed first if it is about to end.

Refresh tokens may be good for one use only, so no two renewals of one secret run at once: tasks wait for each other,
and processes too when they are told where to keep their lock. Who waited looks again before renewing.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from inspect import isawaitable
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from attrs import define, field

from lemon_ai.auth.exchange import refresh_secret
from lemon_ai.auth.github_copilot import refresh_copilot
from lemon_ai.auth.oauth_secret import OAuthSecret, decode_secret, encode_secret
from lemon_ai.auth.pkce import LoginFailed, OAuthClient
from lemon_ai.auth.vendors import CODEX, COPILOT, GEMINI_CLI, logins_of
from lemon_ai.errors import AiError
from lemon_ai.wire_text import compact_json, short_hash
from lemon_otp import wall_ms

log = logging.getLogger(__name__)

Persist = Callable[[str, str], Awaitable[None] | None]
"""Keeps a secret's new value under its name."""
Reload = Callable[[str], str | None]
"""Reads a secret's value again; another process may have renewed it."""


@define(eq=False)
class SecretResolver:
    """Turns kept secrets into keys.

    Attributes:
        persist: Where renewed secrets go. Its failure is logged and changes nothing.
        reload: How a secret is read again; None trusts what was passed.
        lock_dir: A folder for lock files shared by processes; None locks within this process only.
        logins: How secrets are renewed, by their type.
    """

    persist: Persist
    reload: Reload | None = None
    lock_dir: Path | None = None
    logins: Mapping[str, OAuthClient] = field(factory=logins_of)
    _locks: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, asyncio.Lock]] = field(
        factory=WeakKeyDictionary, init=False, repr=False
    )

    async def api_key(self, name: str, value: str) -> str | None:
        """The key behind a secret, or None if the value is no secret of ours and stands for itself.

        Raises:
            LoginFailed: It has ended and cannot be renewed.
            ProviderError: It has ended, and the token server refused or did not answer.
        """
        secret = decode_secret(value)
        if secret is None or not (secret.type in self.logins or secret.type in (CODEX, COPILOT, GEMINI_CLI)):
            return None
        if self._has_ended(secret):
            secret = await self._renewed(name, value, secret)
        return key_of(secret)

    def _has_ended(self, secret: OAuthSecret) -> bool:
        login = self.logins.get(secret.type)
        early_s = login.refresh_early_s if login is not None else 0.0
        return secret.ends_before(wall_ms() + early_s * 1000)

    async def _renewed(self, name: str, value: str, secret: OAuthSecret) -> OAuthSecret:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._lock(name))
            if self.lock_dir is not None:
                from filelock import AsyncFileLock

                await stack.enter_async_context(AsyncFileLock(self.lock_dir / f"{short_hash(name)}.lock"))
            now = self.reload(name) if self.reload is not None else None
            if now is not None and now != value:
                secret = decode_secret(now) or secret
                if not self._has_ended(secret):
                    return secret
            return await self._renew(name, secret)

    def _lock(self, name: str) -> asyncio.Lock:
        return self._locks.setdefault(asyncio.get_running_loop(), {}).setdefault(name, asyncio.Lock())

    async def _renew(self, name: str, secret: OAuthSecret) -> OAuthSecret:
        login = self.logins.get(secret.type)
        try:
            if secret.type == COPILOT:
                renewed = await refresh_copilot(secret)
            elif login is None:
                raise LoginFailed(f"No client id is configured for logins of type {secret.type}.")
            else:
                renewed = await refresh_secret(login, secret)
        except AiError as problem:
            if not secret.access_token or (login is not None and not login.keep_on_failure):
                raise
            log.warning("%s could not be renewed, its old token is tried: %s", name, problem)
            return secret
        await self._keep(name, renewed)
        return renewed

    async def _keep(self, name: str, secret: OAuthSecret) -> None:
        try:
            kept: Any = self.persist(name, encode_secret(secret))
            if isawaitable(kept):
                await kept
        except Exception:  # what the caller does with a secret must not fail the call
            log.exception("%s was renewed but could not be kept", name)


def key_of(secret: OAuthSecret) -> str:
    """What a provider is called with: the access token, for Code Assist with its project."""
    if secret.type == GEMINI_CLI:
        return compact_json({"token": secret.access_token, "projectId": secret.extras.get("project_id") or ""})
    return secret.access_token
