"""A thread with a loop of its own: what is handed to it, and its end."""

import asyncio
import threading

from coding_agent.observer.web_thread import WebThread


def ended() -> tuple[WebThread, list[object]]:
    heard: list[object] = []
    thread = WebThread("test")

    async def main(stop: asyncio.Event) -> None:
        await stop.wait()

    thread.start(main, heard.append)
    return thread, heard


def test_calls_come_in_order_from_any_thread_and_a_failing_one_harms_no_other():
    """However many at once: each is made, in the thread, in the order in which it was handed over."""
    thread, failed = ended()
    made: list[tuple[int, str]] = []
    last = threading.Event()
    for number in range(2_000):
        thread.call(lambda n=number: made.append((n, threading.current_thread().name)))
        if number == 1_000:
            thread.call(lambda: 1 / 0)
    thread.call(last.set)
    assert last.wait(10.0)
    thread.stop(5.0)
    assert [number for number, _ in made] == list(range(2_000))
    assert {name for _, name in made} == {"test"}
    assert failed == []
    thread.call(made.clear)
    thread.stop(5.0)
    assert made


def test_what_ends_it_too_early_is_told():
    """Whoever started it can do something about it; its end is an end all the same."""
    told: list[Exception] = []
    thread = WebThread("test")

    async def main(stop: asyncio.Event) -> None:
        raise OSError("no more descriptors")

    done = threading.Event()
    thread.start(main, lambda error: (told.append(error), done.set()))
    assert done.wait(10.0)
    thread.stop(5.0)
    assert [str(error) for error in told] == ["no more descriptors"]
