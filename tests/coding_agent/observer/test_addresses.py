"""Where a web server of the host may listen, and whom it answers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coding_agent.errors import BadUsage
from coding_agent.observer.addresses import ListenAt, host_is_ours, listen_at, origin_is_ours

HERE = ListenAt("127.0.0.1", 4450)


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("", "127.0.0.1", 0),
        ("4450", "127.0.0.1", 4450),
        (":4450", "127.0.0.1", 4450),
        ("localhost:4450", "localhost", 4450),
        ("0.0.0.0:80", "0.0.0.0", 80),
        ("[::1]:80", "::1", 80),
        ("::1", "::1", 0),
        ("box.example", "box.example", 0),
    ],
)
def test_an_address_may_leave_out_what_is_usual(text, host, port):
    """Without a host it is loopback, without a port any that is free."""
    assert listen_at(text, "--observe") == ListenAt(host, port)


@pytest.mark.parametrize(
    "text", ["a b:1", "h:x", "h:70000", "http://h:1", "[::1", "[nope]:1", "a:b:c", "h:1/path", "x@y:1"]
)
def test_what_is_no_address_is_refused_with_an_example(text):
    """The text names the flag and shows what an address looks like."""
    with pytest.raises(BadUsage, match=r"--observe .* such as 127\.0\.0\.1:4450"):
        listen_at(text, "--observe")


@pytest.mark.requirement("BR-173")
@pytest.mark.parametrize(
    ("host", "ours"),
    [
        ("127.0.0.1:4450", True),
        ("localhost:4450", True),
        ("LOCALHOST", True),
        ("[::1]:4450", True),
        ("127.0.0.1:9", True),
        ("evil.test", False),
        ("evil.test:4450", False),
        ("127.0.0.1.evil.test", False),
        ("localhost.evil.test", False),
        ("192.168.1.4:4450", False),
        ("user@127.0.0.1", False),
        ("127.0.0.1/..", False),
        ("127.0.0.1, evil.test", False),
        ("127.0.0.1:x", False),
        ("[::1", False),
        ("", False),
        (None, False),
    ],
)
def test_only_names_of_this_machine_are_answered(host, ours):
    """A page of a stranger whose name resolves to this machine sends the stranger's name."""
    assert host_is_ours(host, HERE) is ours


def test_another_host_answers_to_its_addresses_and_to_the_name_it_was_given():
    """Listening for others, any literal address is ours; names are only the one that was given, and localhost."""
    everywhere = ListenAt("0.0.0.0", 1)
    assert host_is_ours("192.168.1.4:1", everywhere)
    assert not host_is_ours("evil.test:1", everywhere)
    assert host_is_ours("Box.Example:1", ListenAt("box.example", 1))


@pytest.mark.requirement("BR-173", "BR-174")
@pytest.mark.parametrize(
    ("origin", "ours"),
    [
        (None, True),
        ("http://127.0.0.1:4450", True),
        ("https://127.0.0.1:4450", True),
        ("null", False),
        ("::::", False),
        ("", False),
        ("http://evil.test", False),
        ("http://127.0.0.1:4451", False),
        ("http://localhost:4450", False),
        ("http://127.0.0.1:4450/path", False),
        ("http://127.0.0.1:4450.evil.test", False),
        ("http://127.0.0.1:99999", False),
        ("file://", False),
        ("chrome-extension://abc", False),
        ("http://[::1", False),
        ("http://127.0.0.1:4450#x", False),
    ],
)
def test_only_pages_of_the_server_itself_are_answered(origin, ours):
    """No Origin header is no page; a foreign, an opaque or a broken one is refused."""
    assert origin_is_ours(origin, "127.0.0.1:4450") is ours


@given(st.text(max_size=40), st.text(max_size=40))
def test_no_header_makes_the_rules_fail(host, origin):
    """Whatever bytes come, the answer is yes or no, and only the server's own names are a yes."""
    if host_is_ours(host, HERE):
        assert host.lower().startswith(("localhost", "127.", "[", "0"))
    origin_is_ours(origin, host)
