"""Bodies that hold more than one Anthropic message: a fixture of several exchanges, or a server that began again.

The official client takes the first message's index for the second's and puts its deltas into the wrong blocks. Read
by the letter instead: an answer ends with its `message_stop`, and a message that begins before that is a new start
whose blocks stand beside the old ones.
"""

import json
from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]


def own_reading(body: str) -> Json:
    """What such a body says; nothing for a body with one message."""
    events = list(_events(body))
    kinds = [event["type"] for event in events]
    if kinds.count("message_start") < 2:
        return {}
    if "message_stop" in kinds:
        events = events[: kinds.index("message_stop")]
    blocks: list[Json] = []
    place: dict[int, Json] = {}
    said: Json = {}
    for event in events:
        match event["type"]:
            case "message_start":
                place = {}
                said["response_id"] = event["message"]["id"]
                counted = event["message"]["usage"]
            case "content_block_start":
                block = place[event["index"]] = {**event["content_block"], "pieces": []}
                blocks.append(block)
            case "content_block_delta":
                delta = event["delta"]
                place[event["index"]]["pieces"].append(
                    delta.get("text") or delta.get("thinking") or delta.get("partial_json") or ""
                )
            case "message_delta":
                said["stop"] = event["delta"]["stop_reason"]
                counted = counted | {name: count for name, count in event["usage"].items() if count is not None}
    return {
        "text": "".join(_whole(block) for block in blocks if block["type"] == "text"),
        "thinking": "\n\n".join(_whole(block) for block in blocks if block["type"] == "thinking"),
        "tool_calls": [_call(block) for block in blocks if block["type"] == "tool_use"],
        "stop_reason": {"end_turn": "stop", "max_tokens": "length"}.get(said["stop"], said["stop"]),
        "response_id": said["response_id"],
        "usage": {"input": counted["input_tokens"], "output": counted["output_tokens"]},
    }


def _events(body: str) -> Iterator[Json]:
    for line in body.splitlines():
        try:
            event = json.loads(line.removeprefix("data:"))
        except ValueError:
            continue
        if isinstance(event, dict) and "type" in event:
            yield event


def _whole(block: Json) -> str:
    return "".join(block["pieces"])


def _call(block: Json) -> Json:
    try:
        arguments = json.loads(_whole(block) or "{}")
    except ValueError:
        arguments = None
    return {"id": block["id"], "name": block["name"], "arguments": arguments}
