"""Everything may die at any time: whoever asked gets an answer, and nothing is left behind."""

import pytest

from tests.lemon_agent.chaos import ENOUGH, run


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_busy_tree_survives_the_death_of_any_process(seed):
    """
    For two seconds and more twelve callers talk to agents while something dies every few milliseconds: every run ends
    with well-formed events or the news of its agent's death, and afterwards no process, zombie or signal is left.
    `python -m tests.lemon_agent.chaos` does the same for a minute.
    """
    import asyncio

    report = asyncio.run(run(2.0, seed))
    assert report.unanswered == []
    assert report.left == []
    assert sum(report.killed.values()) > ENOUGH
    assert report.outcomes["completed"] > ENOUGH
