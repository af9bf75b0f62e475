"""Pure. The environment a program of a tool gets: what it needs to work, and none of our secrets."""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from coding_agent.own_environment import SECRET_NAME

PASSED: Final = frozenset(
    """
    PATH HOME USER LOGNAME SHELL PWD LANG LANGUAGE TZ TZDIR TMPDIR TMP TEMP HOSTNAME DISPLAY WAYLAND_DISPLAY
    COLUMNS LINES MAKEFLAGS MAKELEVEL CC CXX CFLAGS CXXFLAGS CPPFLAGS LDFLAGS PKG_CONFIG_PATH
    LD_LIBRARY_PATH DYLD_LIBRARY_PATH MANPATH INFOPATH VIRTUAL_ENV CONDA_PREFIX CONDA_DEFAULT_ENV PYTHONPATH PYTHONHOME
    PYENV_ROOT PYENV_VERSION POETRY_HOME UV_CACHE_DIR PIP_CACHE_DIR PIP_INDEX_URL PIP_CONFIG_FILE UV_INDEX_URL
    UV_DEFAULT_INDEX NVM_DIR NVM_BIN NODE_PATH NODE_ENV NPM_CONFIG_REGISTRY PNPM_HOME BUN_INSTALL DENO_DIR
    VOLTA_HOME GOPATH GOROOT GOBIN GOCACHE GOMODCACHE GOPROXY GOFLAGS CARGO_HOME RUSTUP_HOME RUSTUP_TOOLCHAIN RUSTFLAGS
    JAVA_HOME MAVEN_HOME M2_HOME GRADLE_HOME GRADLE_USER_HOME ANDROID_HOME ANDROID_SDK_ROOT DOTNET_ROOT GEM_HOME
    GEM_PATH RBENV_ROOT BUNDLE_PATH ERL_LIBS MIX_HOME HEX_HOME MIX_ENV GHCUP_INSTALL_BASE_PREFIX OPAM_SWITCH_PREFIX
    HOMEBREW_PREFIX HOMEBREW_CELLAR NIX_PATH NIX_PROFILES NIX_SSL_CERT_FILE DOCKER_HOST KUBECONFIG SSL_CERT_FILE
    SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE NODE_EXTRA_CA_CERTS HTTP_PROXY HTTPS_PROXY NO_PROXY ALL_PROXY
    http_proxy https_proxy no_proxy all_proxy SSH_AUTH_SOCK CI SYSTEMROOT
    """.split()  # noqa: SIM905 -- a list of one hundred quoted names cannot be read
)
"""Names a program gets from us. A list of what is let through, because nobody can list every secret's name."""

PASSED_PREFIXES: Final = ("LC_", "XDG_")

PASSWORD_IN_URL: Final = re.compile(r"//[^/\s@]*:[^/\s@]*@")

QUIET: Final[Mapping[str, str]] = {
    "TERM": "dumb",
    "NO_COLOR": "1",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "MANPAGER": "cat",
    "EDITOR": "true",
    "VISUAL": "true",
    "GIT_EDITOR": "true",
    "GIT_SEQUENCE_EDITOR": "true",
    "GIT_TERMINAL_PROMPT": "0",
    "DEBIAN_FRONTEND": "noninteractive",
    "PIP_NO_INPUT": "1",
}
"""There is no terminal and nobody to answer: programs are told so, instead of waiting for somebody."""


def child_environment(
    own: Mapping[str, str], *, also: Iterable[str] = (), extra: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The environment for a program that a tool runs.

    Args:
        own: Our environment.
        also: More names to pass; `NAME_*` passes all that begin so, except names that look like a secret's.
        extra: Set as given, over everything else.
    """
    exact = {name for name in also if not name.endswith("*")}
    prefixes = (*PASSED_PREFIXES, *(name[:-1] for name in also if name.endswith("*")))
    passed = {
        name: value
        for name, value in own.items()
        if name in exact or ((name in PASSED or name.startswith(prefixes)) and not holds_secret(name, value))
    }
    passed.setdefault("PATH", "/usr/local/bin:/usr/bin:/bin")
    return {**passed, **QUIET, **(extra or {})}


def holds_secret(name: str, value: str) -> bool:
    """Does a variable look like it carries one?"""
    return bool(SECRET_NAME.search(name) or PASSWORD_IN_URL.search(value))
