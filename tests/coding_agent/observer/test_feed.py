"""What is said to the pages that look: bounded queues, and the whole picture for whoever lost track."""

import json

from coding_agent.observer.feed import PAGES_MAX, QUEUE_MAX, Feed, Feeds, encoded


def told(*messages):
    async def whole():
        return [*messages]

    return whole


async def read(feed: Feed, count: int) -> list[str]:
    said = []
    async for message in feed.read():
        said.append(message.decode())
        if len(said) == count:
            break
    return said


async def test_a_page_gets_the_whole_picture_and_then_what_changes():
    """First what there is, then each message in its order."""
    feeds = Feeds()
    feed = Feed(told(("tree", {"order": [1]})))
    feeds.add(feed)
    feeds.say("early", 1)
    reading = feed.read()
    assert (await anext(reading)) == b'event: tree\ndata: {"order":[1]}\n\n'
    feeds.say("delta", {"a": 1})
    assert (await anext(reading)) == b'event: delta\ndata: {"a":1}\n\n'


async def test_a_page_that_does_not_keep_up_loses_its_queue_and_not_the_truth():
    """Beyond the bound everything that waits is dropped; the next it reads is the whole picture of then."""
    feeds, state = Feeds(), {"now": 0}

    async def whole():
        return [("tree", state["now"])]

    feed = Feed(whole)
    feeds.add(feed)
    reading = feed.read()
    await anext(reading)
    for number in range(QUEUE_MAX + 5):
        state["now"] = number
        feeds.say("delta", number)
    assert feed.lost
    assert len(feed._queue) == 0
    assert await anext(reading) == b"event: tree\ndata: %d\n\n" % (QUEUE_MAX + 4)


async def test_the_end_of_the_feed_ends_the_reading_at_once():
    """A host that stops lets no page wait."""
    feeds = Feeds()
    feed = Feed(told(("tree", 0)))
    feeds.add(feed)
    assert len(await read(feed, 1)) == 1
    feeds.end()
    assert [message async for message in feed.read()] == []


def test_only_so_many_pages_can_look():
    """One more is refused; one that leaves makes room."""
    feeds = Feeds()
    pages = [Feed(told()) for _ in range(PAGES_MAX)]
    assert all(feeds.add(page) for page in pages)
    assert not feeds.add(Feed(told()))
    feeds.remove(pages[0])
    assert feeds.add(Feed(told()))


def test_one_message_is_one_event_whatever_is_in_it():
    """Line breaks of any kind, lone surrogates and markup travel inside the JSON."""
    value = {"id": "a\nb\r\n\u2028event: evil\n\ndata: x</script>\ud800"}
    text = encoded("delta", value).decode()
    head, data, *rest = text.split("\n")
    assert head == "event: delta"
    assert rest == ["", ""]
    assert json.loads(data.removeprefix("data: "))["id"].startswith("a\nb\r\n")
