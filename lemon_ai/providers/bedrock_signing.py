"""Edge. Credentials for Bedrock: a bearer token, access keys, or botocore's own search for a profile or a role."""

import asyncio
import os
import re
from collections.abc import Callable, Mapping
from typing import Final

from attrs import field, frozen

from lemon_ai.errors import BadRequest, MissingCredential
from lemon_ai.provider import ProviderRequest
from lemon_ai.providers.asking import setting, settings_of
from lemon_ai.providers.bedrock_encode import DEFAULT_REGION

SERVICE: Final = "bedrock"
VARIABLES: Final = ("AWS_BEARER_TOKEN_BEDROCK", "AWS_ACCESS_KEY_ID")

AWS_HOST = re.compile(r"https://bedrock-runtime\.([a-z0-9-]+)\.amazonaws\.com/?")
"""The addresses of the service itself, which name a region."""

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
    """What proves who asks, in this order: a bearer token, access keys, then botocore's search for a profile or a role.

    Options come before the environment.

    Raises:
        MissingCredential: There is nothing.
        BadRequest: botocore, which signs and which reads the answer, is not installed.
    """
    provider = request.model.provider
    require_botocore(provider)
    keys = _given_keys(request)
    token = request.options.api_key or setting(request, "api_key") or setting(request, "aws_bearer_token")
    token = token or (os.environ.get("AWS_BEARER_TOKEN_BEDROCK") if keys is None else None)
    if token:
        return AwsAuth({"authorization": f"Bearer {token}"})
    if keys is None:
        # botocore may read files or ask a metadata service, and cannot do so without blocking.
        keys = await asyncio.to_thread(_found_keys, provider, setting(request, "aws_profile", "AWS_PROFILE"))
    if keys is None:
        hint = "AWS_ACCESS_KEY_ID not found. It goes with AWS_SECRET_ACCESS_KEY; AWS_BEARER_TOKEN_BEDROCK does alone."
        raise MissingCredential(provider=provider, variables=VARIABLES, hint=hint)
    return AwsAuth(sign=signer(keys, region_of(request)))


def region_of(request: ProviderRequest) -> str:
    """The region a call goes to: the caller's, the environment's, the one in the model's address, or the default."""
    named = setting(request, "aws_region") or setting(request, "region") or request.options.location
    named = named or setting(request, "aws_region", "AWS_REGION", "AWS_DEFAULT_REGION")
    of_address = AWS_HOST.fullmatch(request.model.base_url)
    return named or (of_address.group(1) if of_address else DEFAULT_REGION)


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


def _given_keys(request: ProviderRequest) -> AwsKeys | None:
    """Keys of the settings, or of the environment; never one of each."""
    settings = settings_of(request)
    names = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
    if settings.get("aws_profile"):
        return None
    for source, spelled in ((settings, names), (os.environ, tuple(name.upper() for name in names))):
        access, secret, token = (source.get(name) for name in spelled)
        if access and secret:
            return AwsKeys(str(access), str(secret), str(token) if token else None)
    return None


def _found_keys(provider: str, profile: str | None) -> AwsKeys | None:
    from botocore.exceptions import BotoCoreError
    from botocore.session import Session

    try:
        found = Session(profile=profile).get_credentials()
        keys = None if found is None else found.get_frozen_credentials()
    except BotoCoreError as error:
        raise MissingCredential(provider=provider, variables=VARIABLES, hint=str(error)) from error
    return None if keys is None else AwsKeys(keys.access_key, keys.secret_key, keys.token)
