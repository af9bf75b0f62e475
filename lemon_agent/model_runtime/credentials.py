"""Pure. Where a provider's credentials may come from, by name, and what they are."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from attrs import field

from lemon_agent.model_runtime.cooldowns import Cooldowns, Ref
from lemon_ai import key_variables
from lemon_otp import frozen

DEFAULT_REF: Final = "default"
Secrets = Callable[[str], str | None]
"""Finds a named secret; None when there is none of that name."""


@frozen
class Credential:
    """A credential and the name it goes by. Only the name may be shown."""

    ref: Ref
    value: str = field(repr=False)


@frozen(kw_only=True)
class Sources:
    """Where credentials are looked for.

    Attributes:
        pools: By provider, references tried first: "secret:NAME", "env:VARIABLE"; a bare name is a secret's.
        plain: By provider, a key written into the settings.
        secrets: Finds named secrets.
        environ: The environment; the process's own by default.
    """

    pools: Mapping[str, Sequence[str]] = field(factory=dict)
    plain: Mapping[str, str] = field(factory=dict, repr=False)
    secrets: Secrets = field(default=lambda name: None, repr=False)
    environ: Mapping[str, str] = field(factory=lambda: os.environ, repr=False)

    def credentials(self, provider: str) -> tuple[Credential, ...]:
        """Every credential that can be had, the pool's first, then the one of the usual places as "default"."""
        found: dict[Ref, str] = {}
        for ref in self.pools.get(provider, ()):
            value = self._resolve(ref)
            if value:
                found.setdefault(ref, value)
        usual = self._usual(provider)
        if usual:
            found.setdefault(DEFAULT_REF, usual)
        return tuple(Credential(ref, value) for ref, value in found.items())

    def choose(self, provider: str, cooldowns: Cooldowns, now_s: float) -> Credential | None:
        """The first credential that does not rest; when all do, the first; None when there is none."""
        found = {credential.ref: credential for credential in self.credentials(provider)}
        ref = cooldowns.choose(provider, found, now_s)
        return None if ref is None else found[ref]

    def _resolve(self, ref: str) -> str | None:
        kind, _, name = ref.partition(":")
        if kind == "env" and name:
            return self.environ.get(name)
        return self.secrets(name if kind == "secret" and name else ref)

    def _usual(self, provider: str) -> str | None:
        """The environment, the settings, the provider's own secret, in this order."""
        for variable in key_variables(provider):
            if self.environ.get(variable):
                return self.environ[variable]
        return self.plain.get(provider) or self.secrets(f"{provider}_api_key")
