"""Edge. The device flow: show a code, wait until it was entered somewhere else."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

from attrs import field, frozen

from lemon_ai.auth.pkce import LoginFailed
from lemon_ai.auth.token_request import post_form
from lemon_otp import monotonic_s

GRANT: Final = "urn:ietf:params:oauth:grant-type:device_code"
_SLOWER_S: Final = 5.0

Sleep = Callable[[float], Awaitable[None]]


@frozen
class DeviceCode:
    """A login to be finished on another device.

    Attributes:
        user_code: To be typed in by the user.
        verification_uri: Where.
        device_code: What the login is asked about with.
        interval_s: Seconds between two questions, at least 1.
        expires_in_s: Seconds until it is too late.
    """

    user_code: str
    verification_uri: str
    device_code: str = field(repr=False)
    interval_s: float = 5.0
    expires_in_s: float = 900.0


async def request_device_code(provider: str, url: str, *, client_id: str, scope: str) -> DeviceCode:
    """A new login.

    Raises:
        ProviderError: The server refused or did not answer.
        LoginFailed: It answered without a code.
    """
    answer = await post_form(provider, url, {"client_id": client_id, "scope": scope})
    try:
        return DeviceCode(
            user_code=str(answer["user_code"]),
            verification_uri=str(answer.get("verification_uri_complete") or answer["verification_uri"]),
            device_code=str(answer["device_code"]),
            interval_s=max(1.0, float(answer.get("interval") or 5)),
            expires_in_s=float(answer.get("expires_in") or 900),
        )
    except KeyError as error:
        raise LoginFailed(f"The login server left out {error}.") from error


async def wait_for_token(provider: str, url: str, code: DeviceCode, *, client_id: str, sleep: Sleep) -> dict[str, Any]:
    """The token server's answer, once the user has entered the code. Cancelling stops the waiting.

    Raises:
        LoginFailed: The user declined, or took too long.
        ProviderError: The server did not answer.
    """
    until_s = monotonic_s() + code.expires_in_s
    interval_s = code.interval_s
    form = {"client_id": client_id, "device_code": code.device_code, "grant_type": GRANT}
    while monotonic_s() < until_s:
        await sleep(interval_s)
        answer = await post_form(provider, url, form)
        if answer.get("access_token"):
            return answer
        match answer.get("error"):
            case "authorization_pending":
                continue
            case "slow_down":
                interval_s = max(interval_s + _SLOWER_S, float(answer.get("interval") or 0))
            case problem:
                raise LoginFailed(f"The login was not granted: {answer.get('error_description') or problem}")
    raise LoginFailed("The code was not entered in time.")
