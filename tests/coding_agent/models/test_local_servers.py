"""Servers on this machine are known by what only they answer, and their models get the context they really have."""

import json
import socket

import pytest

from coding_agent.models.local_servers import DEFAULT_ADDRESSES, LocalServers, configured_addresses, first_model
from lemon_ai import default_catalog
from lemon_ai.local_server import LocalServer as RealServer
from lemon_otp.testing import FakeClock
from tests.coding_agent.models.local_fakes import LLAMA_CPP, LM_STUDIO, OLLAMA, OTHER, VLLM, serving


def found_at(*urls, environ=None):
    return LocalServers({"LEMON_LOCAL_SERVERS": "30", **(environ or {})}, addresses=urls).find()


def test_ollama_is_known_and_its_models_get_the_context_they_really_have():
    """What is loaded says so; else `num_ctx`; else the default, marked as assumed. The maximum alone is never used."""
    with serving(OLLAMA) as fake:
        (server,) = found_at(fake.url)
    assert (server.kind, server.version, server.base_url) == ("ollama", "0.12.3", f"{fake.url}/v1")
    facts = {model.id: (model.context, model.context_max, model.assumed, model.loaded) for model in server.models}
    assert facts == {
        "small": (16384, 131072, False, False),
        "seeing": (4096, 262144, True, False),
        "loaded": (32768, 40960, False, True),
    }
    models = {model.id: model for model in server.as_models()}
    assert models["seeing"].sees_images
    assert models["seeing"].reasoning
    assert models["small"].context_window == 16384
    assert first_model([server]).id == "loaded"


def test_a_context_set_for_all_of_ollama_counts_where_no_model_says_otherwise():
    """OLLAMA_CONTEXT_LENGTH, never more than the model has."""
    with serving(OLLAMA) as fake:
        (server,) = found_at(fake.url, environ={"OLLAMA_CONTEXT_LENGTH": "64000"})
    assert {model.id: model.context for model in server.models} == {"small": 16384, "seeing": 64000, "loaded": 32768}


def test_lm_studio_llama_cpp_vllm_and_others_are_told_apart_on_any_port():
    """By their own endpoints; models that only embed are left out."""
    with serving(LM_STUDIO) as lm, serving(LLAMA_CPP) as llama, serving(VLLM) as vllm, serving(OTHER) as other:
        servers = found_at(lm.url, llama.url, vllm.url, other.url)
    assert [server.kind for server in servers] == ["lmstudio", "llama_cpp", "vllm", "local"]
    contexts = [{model.id: model.context for model in server.models} for server in servers]
    assert contexts == [{"qwen": 8192, "gemma": 65536}, {"smol.gguf": 8192}, {"Qwen/Qwen3-8B": 40960}, {"mystery": 0}]
    assert servers[0].models[0].tools
    assert servers[1].models[0].vision
    assert servers[2].as_models()[0].base_url == f"{vllm.url}/v1"
    assert servers[3].as_models()[0].provider == "local"


def test_a_llama_cpp_that_routes_is_asked_about_each_model_without_loading_it():
    """`autoload=false` goes with every question."""
    routes = {
        **LLAMA_CPP,
        "/v1/models": {"data": [{"id": "a"}, {"id": "b c"}]},
        "/props?autoload=false&model=a": {"default_generation_settings": {"n_ctx": 1024}},
        "/props?autoload=false&model=b%20c": {"default_generation_settings": {"n_ctx": 2048}},
    }
    with serving(routes) as fake:
        (server,) = found_at(fake.url)
    assert {model.id: model.context for model in server.models} == {"a": 1024, "b c": 2048}
    assert all("autoload=false" in path for path in fake.asked if path.startswith("/props"))


def test_a_llama_cpp_that_reads_its_model_is_there_without_models():
    """503 from its health check while it loads."""
    loading = (503, json.dumps({"error": {"message": "Loading model"}}))
    with serving(dict.fromkeys(("/", "/props", "/health", "/api/v0/models"), loading)) as fake:
        (server,) = found_at(fake.url)
    assert (server.kind, server.state, server.models) == ("llama_cpp", "loading its model", ())
    assert first_model([server]) is None


@pytest.mark.parametrize(
    "page",
    ["<!doctype html>hello", "{", "[]", "null", "{}", json.dumps({"data": 7}), json.dumps({"data": [1, {"no": "id"}]})],
)
def test_what_answers_everything_with_something_else_is_no_server(page):
    """A page of a development server on port 8000 is not taken for a model server."""
    paths = ("/", "/api/v0/models", "/props", "/version", "/v1/models", "/api/tags", "/health")
    with serving(dict.fromkeys(paths, page)) as fake:
        assert found_at(fake.url) == ()


def test_a_huge_a_redirecting_and_a_silent_server_are_none():
    """Answers are bounded in size and time, and nothing is followed elsewhere."""
    with serving({"/v1/models": json.dumps({"data": [{"id": "x" * 5_000_000}]})}) as huge:
        assert found_at(huge.url) == ()
    with serving(dict.fromkeys(("/", "/v1/models"), (302, ""))) as elsewhere:
        assert found_at(elsewhere.url) == ()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        assert found_at(address, environ={"LEMON_LOCAL_SERVERS": "0.1"}) == ()


def test_no_key_is_sent_and_nothing_is_asked_but_questions(monkeypatch):
    """Whatever variables are set; the one POST is Ollama's question about a model."""
    monkeypatch.setenv("OPENAI_API_KEY", "secret-1")
    monkeypatch.setenv("OLLAMA_API_KEY", "secret-2")
    with serving(OLLAMA) as fake:
        found_at(fake.url)
    assert "secret" not in json.dumps(fake.headers)
    assert not any("authorization" in headers for headers in fake.headers)
    assert {path for path, body in zip(fake.asked, fake.bodies, strict=True) if body} == {"/api/show"}


def test_where_is_looked():
    """Loopback only, each address once; configured ones besides; a switch looks nowhere."""
    assert LocalServers({}).candidates() == DEFAULT_ADDRESSES
    told = LocalServers(
        {"OLLAMA_HOST": "localhost:9999"}, configured=("http://127.0.0.1:1234/v1", "http://10.0.0.9/v1")
    )
    assert told.candidates() == ("http://127.0.0.1:9999", *DEFAULT_ADDRESSES, "http://10.0.0.9")
    assert LocalServers({"OLLAMA_HOST": "0.0.0.0"}).candidates() == DEFAULT_ADDRESSES
    assert LocalServers({"OLLAMA_HOST": "http://gpu.example:11434"}).candidates() == DEFAULT_ADDRESSES
    assert LocalServers({"LEMON_LOCAL_SERVERS": "off", "OLLAMA_HOST": "localhost"}).candidates() == ()
    assert LocalServers({"OLLAMA_HOST": "http://[::1:x"}, addresses=()).candidates() == ()


def test_only_addresses_on_this_machine_are_taken_from_models_json():
    """A server elsewhere is asked when it is used, not when a list is shown."""
    catalog = default_catalog().with_overrides(
        {"providers": {"a": {"baseUrl": "http://127.0.0.1:9/v1"}, "b": {"baseUrl": "https://far.example/v1"}}}
    )
    assert configured_addresses(catalog, None, "http://localhost:7/v1") == (
        "http://127.0.0.1:9/v1",
        "http://localhost:7/v1",
    )


async def test_what_was_found_is_good_for_a_minute(clocked_runtime, fake_clock: FakeClock):
    """Asked again only after that."""
    with serving(VLLM) as fake:
        servers = LocalServers({"LEMON_LOCAL_SERVERS": "30"}, addresses=(fake.url,))
        first = servers.find()
        asked = len(fake.asked)
        await fake_clock.advance(59)
        assert servers.find() is first
        assert len(fake.asked) == asked
        await fake_clock.advance(2)
        assert servers.find() == first
        assert len(fake.asked) > asked


@pytest.mark.local_model
async def test_a_real_llama_cpp_server_is_known_with_its_context():
    """The server of the extra `local`, on a port of its own choosing."""
    import asyncio

    async with RealServer(context_window=2048, slots=1) as real:
        (server,) = await asyncio.to_thread(found_at, real.url)
    assert server.kind == "llama_cpp"
    assert [model.context for model in server.models] == [2048]
    assert server.as_models()[0].base_url == real.base_url
