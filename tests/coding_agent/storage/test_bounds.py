import json

import pytest

from coding_agent.storage.bounds import LIMIT_BYTES, bounded_result


def test_small_details_are_left_alone():
    """
    The same object comes back.
    """
    message = {"role": "toolResult", "content": [], "details": {"diff": "x" * 1000}}
    assert bounded_result(message) is message
    assert bounded_result({"role": "toolResult"}) == {"role": "toolResult"}


@pytest.mark.requirement("BR-058")
@pytest.mark.parametrize(
    "details",
    [
        {"before": "x" * 20_000_000, "after": "x" * 20_000_000, "diff": "y" * 100, "path": "a.txt"},
        {"lines": ["x" * 3000] * 5000},
        {"many": list(range(200_000))},
        "x" * 1_000_000,
        {"deep": {"deeper": ["é" * 100_000]}},
    ],
    ids=["whole-files", "many-lines", "many-numbers", "text", "deep"],
)
def test_large_details_become_small_and_say_what_they_were(details):
    """
    Long strings turn into their length, their hash and their ends, whatever shape they are in.
    """
    bounded = bounded_result({"role": "toolResult", "content": ["kept"], "details": details})
    text = json.dumps(bounded, ensure_ascii=False)

    assert len(text) <= LIMIT_BYTES + 1000
    assert "_truncated" in text
    assert "sha256" in text
    assert bounded["content"] == ["kept"]


def test_short_strings_beside_a_long_one_stay():
    """
    The path of the file is what people look for.
    """
    bounded = bounded_result({"details": {"path": "a.txt", "before": "x" * 1_000_000}})
    assert bounded["details"]["path"] == "a.txt"
    assert bounded["details"]["before"]["bytes"] == 1_000_000
    assert bounded["details"]["before"]["head"] == "x" * 512
