"""Which argument of a tool call is shown to a person."""

import pytest

from coding_agent.telling_argument import telling_argument


@pytest.mark.parametrize(
    ("args", "told"),
    [
        ({"content": "long", "path": "a.py"}, "a.py"),
        ({"description": "run the tests", "command": "make test"}, "make test"),
        ({"path": "  ", "query": "how"}, "how"),
        ({"path": ".", "pattern": "*.toml"}, "*.toml"),
        ({"limit": 3, "whatever": "this"}, "this"),
        ({"limit": 3}, ""),
        ({}, ""),
        ("no object", ""),
        (None, ""),
    ],
)
def test_the_most_telling_text_is_shown_else_the_first_one(args, told):
    """Names that tools commonly use come before all others, blank ones count for nothing, and nothing raises."""
    assert telling_argument(args) == told
