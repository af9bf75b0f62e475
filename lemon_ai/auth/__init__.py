"""Logins as helpers: PKCE and device flows, renewal of kept secrets. Where they are kept is the caller's affair."""

from lemon_ai.auth.callback import wait_for_answer, wait_for_code
from lemon_ai.auth.device import DeviceCode, request_device_code, wait_for_token
from lemon_ai.auth.exchange import exchange_code, refresh_secret
from lemon_ai.auth.gemini_project import with_project
from lemon_ai.auth.github_copilot import GithubHost, begin_device_login, enable_model, finish_device_login
from lemon_ai.auth.oauth_secret import OAuthSecret, decode_secret, encode_secret
from lemon_ai.auth.pkce import LoginFailed, OAuthClient, PendingLogin, begin, read_code
from lemon_ai.auth.resolve import SecretResolver, key_of
from lemon_ai.auth.vendors import anthropic_login, codex_login, gemini_cli_login, logins_of

__all__ = [
    "DeviceCode",
    "GithubHost",
    "LoginFailed",
    "OAuthClient",
    "OAuthSecret",
    "PendingLogin",
    "SecretResolver",
    "anthropic_login",
    "begin",
    "begin_device_login",
    "codex_login",
    "decode_secret",
    "enable_model",
    "encode_secret",
    "exchange_code",
    "finish_device_login",
    "gemini_cli_login",
    "key_of",
    "logins_of",
    "read_code",
    "refresh_secret",
    "request_device_code",
    "wait_for_answer",
    "wait_for_code",
    "wait_for_token",
    "with_project",
]
