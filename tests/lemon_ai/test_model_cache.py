"""What providers said they serve, remembered for a while."""

from __future__ import annotations

from typing import Any

from lemon_ai import Model, ModelCache
from lemon_otp import Down, exit_signal, monitor, receive, whereis
from lemon_otp.testing import FakeClock, settle


def model(name: str) -> Model:
    return Model(id=name, api="openai_completions", provider="vllm")


async def test_what_was_written_is_read_and_gets_old(clocked_ai: FakeClock) -> None:
    """An old entry is still given, with the news that it is old; the reader says what old is."""
    assert ModelCache.read("vllm") is None
    await ModelCache.write("vllm", [model("a"), model("b")], authoritative=True)
    found = ModelCache.read("vllm")
    assert found is not None
    assert ([m.id for m in found.models], found.authoritative, found.fresh, found.age_ms) == (["a", "b"], True, True, 0)

    await clocked_ai.advance(299.999)
    assert ModelCache.read("vllm").fresh  # type: ignore[union-attr]
    await clocked_ai.advance(0.001)
    old = ModelCache.read("vllm")
    assert old is not None
    assert (old.fresh, old.age_ms, old.models) == (False, 300_000, found.models)
    assert ModelCache.read("vllm", ttl_ms=400_000).fresh  # type: ignore[union-attr]


async def test_writing_again_replaces_and_names_are_spelled_either_way(ai: Any) -> None:
    """One entry a provider, whichever way it is spelled."""
    await ModelCache.write("my-server", [model("a")])
    await ModelCache.write("my_server", [model("b")])
    found = ModelCache.read("my-server")
    assert found is not None
    assert [m.id for m in found.models] == ["b"]
    assert not found.authoritative


async def test_entries_are_forgotten_one_by_one_or_all(clocked_ai: FakeClock) -> None:
    """Forgetting what is not known is no error; the figures follow."""
    await ModelCache.write("vllm", [model("a"), model("b")])
    await clocked_ai.advance(2.0)
    await ModelCache.write("lmstudio", [model("c")])
    stats = ModelCache.stats()
    assert (stats.providers, stats.models, stats.oldest_ms) == (2, 3, 2000)
    await ModelCache.invalidate("vllm")
    await ModelCache.invalidate("nobody")
    assert (ModelCache.stats().providers, ModelCache.stats().models) == (1, 1)
    await ModelCache.invalidate_all()
    assert (ModelCache.stats().providers, ModelCache.stats().oldest_ms) == (0, 0)


async def test_a_crash_forgets_everything_and_leaves_a_working_cache(ai: Any) -> None:
    """The table goes with its process; the next one starts empty."""
    await ModelCache.write("vllm", [model("a")])
    pid = whereis("model_cache")
    assert pid is not None
    ref = monitor(pid)
    exit_signal(pid, "kill")
    await receive(lambda message: isinstance(message, Down) and message.ref == ref)
    await settle()
    assert ModelCache.read("vllm") is None
    await ModelCache.write("vllm", [model("b")])
    assert ModelCache.stats().models == 1


def test_without_any_runtime_nothing_is_known() -> None:
    """Reading is never an error."""
    assert ModelCache.read("vllm") is None


async def test_without_the_application_nothing_is_known(runtime: Any) -> None:
    """Reading is never an error."""
    assert ModelCache.read("vllm") is None
    assert ModelCache.stats().providers == 0
