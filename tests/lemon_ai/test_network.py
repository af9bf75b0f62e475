"""Which addresses are this machine's, and what is refused when no other may be reached."""

import pytest

from lemon_ai import Offline, go_offline, is_loopback
from lemon_ai.network import check_reachable


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost:1234/v1",
        "http://LOCALHOST",
        "http://ollama.localhost",
        "http://127.0.0.1:11434",
        "http://127.1",
        "http://[::1]:8080/v1",
        "http://0.0.0.0:8000",
    ],
)
def test_an_address_of_this_machine_is_known(url):
    """By its name or its number."""
    assert is_loopback(url)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.example.com/v1",
        "http://127.0.0.1.example.com",
        "http://localhost.example.com",
        "http://notlocalhost",
        "http://192.0.2.1",
        "http://user:127.0.0.1@example.com",
        "http://[::2]",
        "http://[127.0.0.1",
        "127.0.0.1:8080",
        "",
    ],
)
def test_what_only_looks_like_an_address_of_this_machine_is_none(url):
    """A name may begin with the number; what cannot be read leads nowhere."""
    assert not is_loopback(url)


async def test_offline_only_this_machine_is_reached(runtime):
    """Until then everything is; the refusal is an error of the provider's, whatever the address is like."""
    check_reachable("x", "http://example.com")
    go_offline()
    check_reachable("x", "http://127.0.0.1:1/v1")
    for url in ("http://example.com", "http://127.example.com", "http://[127.0.0.1"):
        with pytest.raises(Offline, match="nothing was sent to x"):
            check_reachable("x", url)
