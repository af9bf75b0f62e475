"""Pure. Words of a session made fit to be shown to somebody else: no secrets, no terminal codes, nothing invisible."""

from __future__ import annotations

import html
from collections.abc import Iterable

from attrs import field, frozen

from coding_agent.tools.visible_text import plain, reveal
from lemon_ai import redact


@frozen
class Cleaner:
    """How text gets from a session file to a page or a document.

    Attributes:
        secrets: Exact values that must not be shown, whatever they look like.
    """

    secrets: frozenset[str] = field(default=frozenset(), repr=False)

    @classmethod
    def hiding(cls, secrets: Iterable[str]) -> Cleaner:
        """A cleaner that hides these values beside what looks like a secret."""
        return cls(frozenset(secrets))

    def text(self, said: str) -> str:
        r"""The words without secrets and terminal codes; what is invisible is written as `\u{202e}`."""
        visible, _ = reveal(plain(said.replace("\r\n", "\n")))
        return redact(visible, self.secrets).encode("utf-8", "replace").decode("utf-8")

    def html(self, said: str) -> str:
        """The same, safe between tags and between the quotes of an attribute."""
        return html.escape(self.text(said), quote=True)

    def line(self, said: str, limit: int = 100) -> str:
        """The beginning of it on one line, safe as `html` is."""
        words = " ".join(self.text(said).split())
        return html.escape(words if len(words) <= limit else words[: limit - 1] + "…", quote=True)
