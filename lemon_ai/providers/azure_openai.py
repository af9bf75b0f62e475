"""Edge. OpenAI's models on Azure: the same two wire formats, other addresses and another key header.

An address may be a resource's name, a base with or without `/openai/v1`, or an older one that names its deployment
and its api-version; what it already says is kept.
"""

import os
from collections.abc import Mapping
from typing import Any, ClassVar, Final
from urllib.parse import urlsplit, urlunsplit

from attrs import evolve, frozen

from lemon_ai.errors import BadRequest
from lemon_ai.provider import ProviderRequest
from lemon_ai.providers.asking import HttpProvider, fold_of, headers_of, key_of, setting, settings_of
from lemon_ai.providers.openai_compat import dialect_of
from lemon_ai.providers.openai_completions_decode import OpenAICompletionsDecoder
from lemon_ai.providers.openai_completions_encode import encode_body as encode_completions
from lemon_ai.providers.openai_responses_decode import ResponsesDecoder
from lemon_ai.providers.openai_responses_encode import encode_body as encode_responses
from lemon_ai.providers.openai_responses_encode import reasoning
from lemon_ai.providers.wire import Decoder, WireCall

DEFAULT_VERSION: Final = "v1"


def azure_base(request: ProviderRequest) -> str:
    """The address of the resource.

    Raises:
        BadRequest: Neither the settings nor the model name one.
    """
    base = setting(request, "azure_base_url") or setting(request, "base_url", "AZURE_OPENAI_BASE_URL")
    resource = setting(request, "azure_resource_name", "AZURE_OPENAI_RESOURCE_NAME")
    if not base and resource:
        base = f"https://{resource}.openai.azure.com/openai/v1"
    base = base or request.model.base_url
    if not base:
        said = "Azure needs to know its resource: set AZURE_OPENAI_RESOURCE_NAME or AZURE_OPENAI_BASE_URL."
        raise BadRequest(provider=request.model.provider, message=said)
    return str(base).rstrip("/")


def azure_url(base: str, operation: str, version: str | None) -> str:
    """The address of `operation` under `base`, with its query kept and `api-version` added if it is missing."""
    parts = urlsplit(base)
    query = parts.query
    if "api-version=" not in query:
        query = "&".join(filter(None, (query, f"api-version={version or DEFAULT_VERSION}")))
    return urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/{operation}", query=query))


def deployment_of(request: ProviderRequest) -> str:
    """What the deployment is called: named outright, by the map of the settings, or like the model."""
    settings = settings_of(request)
    if settings.get("azure_deployment_name"):
        return str(settings["azure_deployment_name"])
    names: Any = settings.get("azure_deployment_name_map") or os.environ.get("AZURE_OPENAI_DEPLOYMENT_NAME_MAP") or {}
    if isinstance(names, str):
        pairs = (pair.partition("=") for pair in names.split(","))
        names = {model.strip(): name.strip() for model, _, name in pairs}
    return str(names.get(request.model.id, request.model.id)) if isinstance(names, Mapping) else request.model.id


def _call(request: ProviderRequest, operation: str, body: dict[str, Any]) -> WireCall:
    base = azure_base(request)
    key = key_of(request, base)
    version = setting(request, "azure_api_version", "AZURE_OPENAI_API_VERSION")
    return WireCall(
        url=azure_url(base, operation, version),
        headers=headers_of(request, {"api-key": key} if key else {}),
        body=body | {"model": deployment_of(request)},
    )


def encode_responses_call(request: ProviderRequest) -> WireCall:
    """The HTTP request of one call of the Responses API; reasoning models think with effort medium if not told."""
    body = encode_responses(evolve(request, model=evolve(request.model, base_url=azure_base(request))), {})
    body.pop("service_tier", None)
    return _call(request, "responses", body | reasoning(request.model, request.options, default="medium"))


def encode_completions_call(request: ProviderRequest) -> WireCall:
    """The HTTP request of one call of Chat Completions."""
    base = azure_base(request)
    body = encode_completions(request, evolve(dialect_of(request.model, base), supports_store=False), base)
    return _call(request, "chat/completions", body)


@frozen
class AzureResponsesProvider(HttpProvider):
    """The Responses API on Azure."""

    api: ClassVar[str] = "azure_openai_responses"

    async def prepare(self, request: ProviderRequest) -> tuple[WireCall, Decoder]:
        """See `HttpProvider.prepare`."""
        return encode_responses_call(request), ResponsesDecoder(fold_of(request))


@frozen
class AzureCompletionsProvider(HttpProvider):
    """Chat Completions on Azure."""

    api: ClassVar[str] = "azure_openai_completions"

    async def prepare(self, request: ProviderRequest) -> tuple[WireCall, Decoder]:
        """See `HttpProvider.prepare`."""
        return encode_completions_call(request), OpenAICompletionsDecoder(fold_of(request))
