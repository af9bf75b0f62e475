import pytest

from coding_agent.session.auto_compaction import AutoCompaction
from coding_agent.session.compaction import CompactionSettings

SETTINGS = CompactionSettings()
OFF = CompactionSettings(enabled=False)


def after(state, trigger="threshold", *, removed=5, fits=False):
    return state.started(trigger).finished(removed=removed, fits=fits, settings=SETTINGS)


@pytest.mark.requirement("BR-041")
@pytest.mark.parametrize("trigger", ["manual", "threshold", "overflow"])
def test_one_compaction_at_a_time(trigger):
    """
    A second trigger while one is under way is left, whoever it comes from.
    """
    state = AutoCompaction()
    assert state.decide(trigger, SETTINGS) == "compact"
    assert state.started("manual").decide(trigger, SETTINGS) == "skip"


@pytest.mark.requirement("BR-039")
def test_two_compactions_without_room_are_enough():
    """
    Then the automatic ones stop with the error, until the user speaks; a person may still ask for one.
    """
    state = after(after(AutoCompaction()))

    assert state.decide("threshold", SETTINGS) == "give_up"
    assert state.decide("overflow", SETTINGS) == "give_up"
    assert state.decide("manual", SETTINGS) == "compact"
    assert state.reset().decide("threshold", SETTINGS) == "compact"


def test_a_compaction_that_gave_room_starts_the_count_anew():
    """
    Long sessions are compacted many times.
    """
    state = AutoCompaction()
    for _ in range(10):
        state = after(after(state), fits=True)
    assert state.decide("threshold", SETTINGS) == "compact"


@pytest.mark.requirement("BR-046")
def test_a_compaction_that_removed_nothing_is_not_repeated():
    """
    A short conversation with an error that only looks like an overflow: the provider's error is shown.
    """
    state = after(AutoCompaction(), "overflow", removed=0)
    assert state.decide("overflow", SETTINGS) == "give_up"
    assert state.decide("threshold", SETTINGS) == "give_up"


@pytest.mark.requirement("BR-043")
def test_switched_off_means_off_and_nothing_is_remembered():
    """
    An overflow is shown as it is; after a change of model the next prompt simply runs.
    """
    state = AutoCompaction()
    assert state.decide("threshold", OFF) == "skip"
    assert state.decide("overflow", OFF) == "give_up"
    assert state.decide("manual", OFF) == "compact"
    assert state.reset() == AutoCompaction()


def test_an_overflow_is_answered_once_a_prompt():
    """
    A second one in the same prompt is an error; a good answer in between clears the first.
    """
    state = after(AutoCompaction(), "overflow", fits=True)
    assert state.decide("overflow", SETTINGS) == "give_up"
    assert state.decide("threshold", SETTINGS) == "compact"
    assert state.answered().decide("overflow", SETTINGS) == "compact"


@pytest.mark.requirement("BR-047")
def test_new_words_of_the_user_clear_whatever_was_stuck():
    """
    Only a compaction that is under way stays what it is.
    """
    stuck = after(after(AutoCompaction(), "overflow"), removed=0)
    assert stuck.reset() == AutoCompaction()
    assert stuck.started("manual").reset().in_flight
