"""Edge. Whose credentials there are, which servers run on this machine, which model would answer and why."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from coding_agent.credentials.credential_file import credential_path
from coding_agent.doctor.finding import Finding, Level, Place
from coding_agent.errors import BadCredentialFile, BadUsage
from coding_agent.models.model_choice import SCRIPTED, choose_model
from coding_agent.models.user_models import models_file, user_models
from lemon_ai import KEY_VARIABLES, redact


def credentials(place: Place) -> Iterator[Finding]:
    """Where keys come from, by provider; never the keys. What is wrong with the files they are in."""
    path = credential_path(place.environ)
    yield from _privacy(path)
    try:
        known = user_models(place.environ).credentials
        stored = known.file.read()
    except (BadCredentialFile, BadUsage) as error:
        yield Finding("credentials", "fail", str(error), "mend the file, or move it away")
        return
    sources = {name: known.source(name) for name in sorted({*KEY_VARIABLES, *stored, *known.named})}
    found = {name: source for name, source in sources.items() if source is not None}
    if found:
        said = "; ".join(f"{name}: {source}" for name, source in found.items())
        yield Finding("credentials", "ok", said, facts={"providers": found, "file": str(path)})
    else:
        mend = "store a key: python -m coding_agent login PROVIDER"
        yield Finding("credentials", "warn", "no provider has a key", mend, {"providers": {}, "file": str(path)})
    for name, entry in stored.items():
        if sources.get(name) is None:
            mend = f"python -m coding_agent login {name}"
            yield Finding("credentials", "warn", f"the entry of {name} ({entry.kind or 'no type'}) is no use", mend)


def _privacy(path: os.PathLike[str]) -> Iterator[Finding]:
    """Looked at before the file is read, because reading mends it."""
    try:
        found = os.stat(path)
    except OSError:
        return
    if found.st_uid != os.getuid():
        yield Finding("credentials", "fail", f"{path} belongs to another user", f"chown it: chown $USER {path}")
    elif found.st_mode & 0o077:
        mode = f"{stat.S_IMODE(found.st_mode):04o}"
        yield Finding(
            "credentials", "warn", f"others could read {path} (mode {mode})", "it is 0600 now; renew its keys"
        )


def local_servers(place: Place) -> Iterator[Finding]:
    """Model servers of this machine, with the models and the context they give."""
    try:
        servers = user_models(place.environ).servers.find()
    except BadUsage as error:
        yield Finding("models.json", "fail", str(error), f"mend {models_file(place.environ)}")
        return
    if not servers:
        yield Finding("local servers", "ok", "none runs (Ollama, LM Studio, llama.cpp, vLLM)", facts={"servers": []})
    for server in servers:
        named = [f"{model.id} ({model.context or '?'} tokens)" for model in server.models[:5]]
        more = f" and {len(server.models) - 5} more" if len(server.models) > 5 else ""
        said = f"{server.kind} {server.version} at {redact(server.base_url)}: {', '.join(named) or server.state}{more}"
        level: Level = "ok" if server.models else "warn"
        mend = "" if server.models else "load a model there"
        facts = {
            "kind": server.kind,
            "baseUrl": redact(server.base_url),
            "models": [model.id for model in server.models],
        }
        yield Finding("local servers", level, " ".join(said.split()), mend, facts)
        short = [
            model.id for model in server.models if 0 < model.context < 16_000 and model.context_max > model.context
        ]
        if short and server.kind == "ollama":
            mend = "start it with OLLAMA_CONTEXT_LENGTH=32768, or set num_ctx in the model"
            said = f"ollama cuts conversations short without a word: {', '.join(short[:5])}"
            yield Finding("local servers", "warn", said, mend)


def model(place: Place) -> Iterator[Finding]:
    """Which model would answer in a new session here, and why that one."""
    from coding_agent.settings import read_settings

    try:
        known = user_models(place.environ)
        settings = read_settings(place.environ, cwd=str(place.cwd))
        choice = choose_model(settings, known.catalog)
    except BadUsage as error:
        yield Finding("model", "fail", str(error), "python -m coding_agent models list shows what there is")
        return
    name = f"{choice.model.provider}/{choice.model.id}"
    if settings.model or settings.base_url:
        why = "LEMON_MODEL or LEMON_BASE_URL names it"
    elif choice.notice:
        why = choice.notice
    else:
        why = known.credentials.source(choice.model.provider) or "settings name it"
    facts = {"model": name, "why": why, "baseUrl": redact(choice.model.base_url) or None}
    if name == SCRIPTED:
        yield Finding("model", "warn", f"{name}, which only shows how it works", choice.notice, facts)
    else:
        yield Finding("model", "ok", f"{name}: {why}", facts=facts)
