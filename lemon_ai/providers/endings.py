"""Pure. The error of an answer that the model, or a filter before or behind it, declined to give."""

from lemon_ai.errors import ContentRefused
from lemon_ai.fold import Fold


def refused(fold: Fold, said: str, *, kind: str | None = None, code: str | None = None) -> ContentRefused:
    """The refusal, in the provider's words: `kind` and `code` are its own, `said` is for people."""
    return ContentRefused(
        provider=fold.model.provider, message=said, type=kind, code=code, provider_message=said, in_stream=True
    )
