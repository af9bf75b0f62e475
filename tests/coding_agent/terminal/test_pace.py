"""When the screen is drawn."""

from coding_agent.terminal.pace import FRAME_S, GIVES_WAY_S, SHARE, Pace


def test_however_fast_events_come_drawing_takes_no_more_than_its_share():
    """After a quick drawing a frame passes; after a slow one so long that all else has four fifths of the time."""
    pace = Pace()
    assert pace.due_s(1.0) == 1.0
    pace.drawn(1.0, 1.001)
    assert pace.due_s(1.002) == 1.001 + FRAME_S
    pace.drawn(2.0, 2.1)
    assert pace.due_s(2.1) == 2.1 + SHARE * (2.1 - 2.0)


def test_a_key_is_drawn_for_at_once_however_slow_drawing_is():
    """Who types sees it, also while a long answer comes."""
    pace = Pace()
    pace.drawn(2.0, 2.5)
    assert pace.due_s(2.6, for_key=True) == 2.6


def test_nothing_is_drawn_between_enter_and_the_question_to_the_model():
    """Neither the emptied line nor that the model is asked: both are drawn a moment later."""
    pace = Pace()
    pace.give_way(5.0)
    assert pace.due_s(5.0, for_key=True) == 5.0 + GIVES_WAY_S
    assert pace.due_s(5.0) == 5.0 + GIVES_WAY_S
    assert pace.due_s(5.0 + 2 * GIVES_WAY_S, for_key=True) == 5.0 + 2 * GIVES_WAY_S
    assert pace.due_s(6.0, is_asking=True) == 6.0 + GIVES_WAY_S
