"""Values and pure rules. One configured server, and how the files that several programs share spell it."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, TypeAlias

from attrs import field, frozen

from coding_agent.mcp.expansion import Unset, expanded, references
from coding_agent.own_environment import secrets_in

Kind: TypeAlias = Literal["stdio", "http", "sse"]
Scope: TypeAlias = Literal["user", "project", "local", "client"]
"""Whose configuration it is: the user's own, the repository's, the user's for this one repository, or an editor's."""

KINDS: Final[Mapping[str, Kind]] = {
    "stdio": "stdio",
    "http": "http",
    "streamable-http": "http",
    "streamablehttp": "http",
    "sse": "sse",
}
CALL_S: Final = 300.0
CALL_S_MAX: Final = 3600.0
MILLISECONDS_FROM: Final = 1000
"""`timeout` is in seconds in some programs and in milliseconds in others; nobody means less than a second, or hours."""


@frozen
class OAuthChoice:
    """How one logs in at a server that does not register everybody.

    Attributes:
        client_id, client_secret: A registration that was made by hand.
        callback_port: Of this machine, where the browser comes back to; as registered.
        scope: What is asked for.
    """

    client_id: str = ""
    client_secret: str | None = field(default=None, repr=False)
    callback_port: int | None = None
    scope: str | None = None


class BadEntry(ValueError):
    """An entry cannot be used; the text says why, and holds nothing secret."""


@frozen
class ServerEntry:
    """One server to run or to reach.

    Attributes:
        name: As configured.
        kind: How it is spoken to.
        command, args, env, cwd: Of the program, for `stdio`.
        url, headers: Of the endpoint, for `http` and `sse`.
        oauth: How one logs in there; None is as the server says.
        timeout_s: How long one call may take.
        always_allow: Tools that the user's own configuration lets run unasked.
        scope: Whose configuration it is.
        source: The file it stands in.
        named: Values of variables that its command, arguments and address name and that are secrets by their names.
    """

    name: str
    kind: Kind
    command: str = field(default="", repr=False)
    args: tuple[str, ...] = field(default=(), repr=False)
    env: Mapping[str, str] = field(factory=dict, repr=False)
    cwd: str | None = None
    url: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(factory=dict, repr=False)
    oauth: OAuthChoice | None = None
    timeout_s: float = CALL_S
    always_allow: tuple[str, ...] = ()
    scope: Scope = "user"
    source: str = ""
    named: frozenset[str] = field(default=frozenset(), repr=False)

    @property
    def secrets(self) -> tuple[str, ...]:
        """Texts that must not be shown: its variables and headers, the query of its address, what these name."""
        query = self.url.partition("?")[2]
        login = re.search(r"//([^/@\s]+)@", self.url)
        found = [*self.named, *self.env.values(), *self.headers.values(), query, login[1] if login else ""]
        found += [part for value in self.headers.values() for part in value.split()]
        found += [self.oauth.client_secret or ""] if self.oauth is not None else []
        return tuple(sorted({text for text in found if len(text) >= 6}, key=len, reverse=True))

    def masked(self, text: str) -> str:
        """The text without this server's secrets."""
        for secret in self.secrets:
            text = text.replace(secret, "***")
        return text


def entry_from(
    name: str, raw: object, variables: Mapping[str, str], *, scope: Scope = "user", source: str = ""
) -> ServerEntry | None:
    """The entry that a configuration file says; None for one that is switched off.

    Args:
        name: Its key in the file.
        raw: Its value there.
        variables: What `${NAME}` stands for.
        scope: Whose file it is.
        source: The file.

    Raises:
        BadEntry: It says nothing usable, or a variable is not set.
    """
    if not isinstance(raw, Mapping):
        raise BadEntry("it must be an object")
    if raw.get("disabled") is True or raw.get("enabled") is False:
        return None
    kind = _kind(raw)
    try:
        parts = _stdio(raw, variables) if kind == "stdio" else _remote(raw, variables)
    except Unset as unset:
        raise BadEntry(str(unset)) from unset
    allowed = raw.get("alwaysAllow", raw.get("autoApprove"))
    own = scope in ("user", "local") and isinstance(allowed, list)
    return ServerEntry(
        name=name,
        kind=kind,
        timeout_s=_timeout(raw.get("timeout")),
        always_allow=tuple(str(each) for each in allowed) if own and allowed else (),
        scope=scope,
        source=source,
        named=secrets_in({name: variables[name] for name in _names_in(raw) if name in variables}),
        **parts,
    )


def _names_in(raw: Mapping[str, Any]) -> Iterator[str]:
    """The variables that a command, its arguments and an address name."""
    args = raw.get("args")
    for text in (raw.get("command"), raw.get("url"), *(args if isinstance(args, list) else ())):
        if isinstance(text, str):
            yield from references(text)


def _kind(raw: Mapping[str, Any]) -> Kind:
    named = raw.get("type", raw.get("transport"))
    if named is None:
        if isinstance(raw.get("command"), str):
            return "stdio"
        if isinstance(raw.get("url"), str):
            return "http"
        raise BadEntry("it has neither a command nor a url")
    kind = KINDS.get(str(named).lower())
    if kind is None:
        raise BadEntry(f"there is no type {str(named)[:40]!r}; known are stdio, http and sse")
    return kind


def _stdio(raw: Mapping[str, Any], variables: Mapping[str, str]) -> dict[str, Any]:
    command, args, cwd = raw.get("command"), raw.get("args", []), raw.get("cwd")
    if not isinstance(command, str) or not command.strip():
        raise BadEntry("its command is missing")
    if not isinstance(args, list) or not all(isinstance(each, str) for each in args):
        raise BadEntry("its args must be a list of texts")
    if cwd is not None and not isinstance(cwd, str):
        raise BadEntry("its cwd must be a text")
    return {
        "command": expanded(command, variables),
        "args": tuple(expanded(each, variables) for each in args),
        "env": _texts("env", raw.get("env"), variables),
        "cwd": None if cwd is None else expanded(cwd, variables),
    }


def _remote(raw: Mapping[str, Any], variables: Mapping[str, str]) -> dict[str, Any]:
    url = raw.get("url")
    if not isinstance(url, str) or not url.strip():
        raise BadEntry("its url is missing")
    url = expanded(url, variables).strip()
    if not re.match(r"https?://[^/\s]", url, re.IGNORECASE):
        raise BadEntry("its url must begin with http:// or https://")
    headers = dict(_texts("headers", raw.get("headers"), variables))
    bearer = raw.get("bearerTokenEnv")
    if isinstance(bearer, str) and bearer:
        headers.setdefault("Authorization", f"Bearer {expanded(f'${{{bearer}}}', variables)}")
    if any(char in text for pair in headers.items() for text in pair for char in "\r\n\0"):
        raise BadEntry("a header holds a line break")
    return {"url": url, "headers": headers, "oauth": _oauth(raw.get("oauth"), variables)}


def _oauth(raw: object, variables: Mapping[str, str]) -> OAuthChoice | None:
    if raw is None:
        return None
    if not isinstance(raw, Mapping):
        raise BadEntry("its oauth must be an object")
    texts = _texts("oauth", {key: value for key, value in raw.items() if key != "callbackPort"}, variables)
    port = raw.get("callbackPort")
    if port is not None and (isinstance(port, bool) or not isinstance(port, int) or not 0 < port < 65536):
        raise BadEntry("its oauth.callbackPort must be a port")
    scope = texts.get("scopes", texts.get("scope"))
    return OAuthChoice(texts.get("clientId", ""), texts.get("clientSecret"), port, scope)


def _texts(what: str, raw: object, variables: Mapping[str, str]) -> Mapping[str, str]:
    """`{name: value}`, or a list of `{name, value}` as editors send it."""
    if raw is None:
        return {}
    if isinstance(raw, list) and all(isinstance(each, Mapping) for each in raw):
        raw = {each.get("name"): each.get("value") for each in raw}
    if not isinstance(raw, Mapping):
        raise BadEntry(f"its {what} must be an object")
    found: dict[str, str] = {}
    for name, value in raw.items():
        if not isinstance(name, str) or not name or isinstance(value, dict | list):
            raise BadEntry(f"its {what} must be an object of texts")
        if value is not None:
            text = value if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else str(value)
            found[name] = expanded(text, variables)
    return found


def _timeout(raw: object) -> float:
    if isinstance(raw, bool) or not isinstance(raw, int | float) or not raw > 0:
        return CALL_S
    return min(raw / 1000 if raw >= MILLISECONDS_FROM else float(raw), CALL_S_MAX)
