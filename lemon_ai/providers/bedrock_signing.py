"""Edge. Credentials for Bedrock: a bearer token, keys passed in, or botocore's own search for a profile or a role."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

from attrs import field, frozen

from lemon_ai.errors import BadRequest, MissingCredential
from lemon_ai.provider import ProviderRequest
from lemon_ai.providers.asking import settings_of
from lemon_ai.providers.bedrock_encode import DEFAULT_REGION

SERVICE: Final = "bedrock"
VARIABLES: Final = ("AWS_BEARER_TOKEN_BEDROCK", "AWS_ACCESS_KEY_ID")

Sign = Callable[[str, str, Mapping[str, str], bytes], Mapping[str, str]]


@frozen
class AwsKeys:
    """One set of AWS keys."""

    access_key: str
    secret_key: str = field(repr=False)
    token: str | None = field(default=None, repr=False)


@frozen
class AwsAuth:
    """How one call proves who asks: fixed headers, or a signature over what is sent."""

    headers: Mapping[str, str] = field(factory=dict, repr=False)
    sign: Sign | None = None


async def aws_auth(request: ProviderRequest) -> AwsAuth:
    """What the options give, in this order: a bearer token, access keys, a named profile, botocore's search.

    Raises:
        MissingCredential: They give nothing.
        BadRequest: botocore, which signs and which reads the answer, is not installed.
    """
    require_botocore(request.model.provider)
    settings = settings_of(request)
    token = request.options.api_key or settings.get("aws_bearer_token") or settings.get("api_key")
    if token:
        return AwsAuth({"authorization": f"Bearer {token}"})
    keys = _given_keys(settings)
    if keys is None and (settings.get("aws_profile") or settings.get("aws_credential_chain")):
        # botocore may read files or ask a metadata service, and cannot do so without blocking.
        keys = await asyncio.to_thread(_found_keys, settings.get("aws_profile"))
    if keys is None:
        hint = "AWS_ACCESS_KEY_ID not found. It goes with AWS_SECRET_ACCESS_KEY; AWS_BEARER_TOKEN_BEDROCK does alone."
        raise MissingCredential(provider=request.model.provider, variables=VARIABLES, hint=hint)
    return AwsAuth(sign=signer(keys, region_of(request)))


def region_of(request: ProviderRequest) -> str:
    """The AWS region a call goes to."""
    settings = settings_of(request)
    return str(settings.get("aws_region") or settings.get("region") or request.options.location or DEFAULT_REGION)


def signer(keys: AwsKeys, region: str) -> Sign:
    """A function that adds a SigV4 signature to the headers of a request, over its exact bytes and address."""

    def sign(method: str, url: str, headers: Mapping[str, str], content: bytes) -> Mapping[str, str]:
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest
        from botocore.credentials import Credentials

        signed = AWSRequest(method=method, url=url, data=content, headers={"content-type": "application/json"})
        SigV4Auth(Credentials(keys.access_key, keys.secret_key, keys.token), SERVICE, region).add_auth(signed)
        return {**headers, **{name.lower(): value for name, value in signed.headers.items()}}

    return sign


def require_botocore(provider: str) -> None:
    """Return when botocore can be imported, raise `BadRequest` with what to install when not."""
    try:
        import botocore.eventstream
    except ImportError as error:
        said = "Bedrock needs botocore: pip install 'lemon-agents[aws]'."
        raise BadRequest(provider=provider, message=said) from error
    assert botocore.eventstream


def _given_keys(settings: Mapping[str, Any]) -> AwsKeys | None:
    access, secret = settings.get("aws_access_key_id"), settings.get("aws_secret_access_key")
    if not access or not secret:
        return None
    return AwsKeys(str(access), str(secret), settings.get("aws_session_token") or None)


def _found_keys(profile: str | None) -> AwsKeys | None:
    from botocore.session import Session

    found = Session(profile=profile).get_credentials()
    if found is None:
        return None
    keys = found.get_frozen_credentials()
    return AwsKeys(keys.access_key, keys.secret_key, keys.token)
