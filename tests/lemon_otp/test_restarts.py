"""The rules of supervision, without any process."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lemon_otp.child_spec import ChildSpec
from lemon_otp.errors import BadArgument, BadChildSpec
from lemon_otp.restarts import Backoff, RestartWindow, check_specs, disturbed_by, starts_again, stops_supervisor

IDS = ["a", "b", "c", "d"]


async def start() -> None:
    """Stands for a start function."""


@pytest.mark.parametrize(
    ("restart", "reason", "again"),
    [
        ("permanent", "normal", True),
        ("permanent", "boom", True),
        ("transient", "normal", False),
        ("transient", "shutdown", False),
        ("transient", ("shutdown", "x"), False),
        ("transient", "killed", True),
        ("transient", ValueError("x"), True),
        ("transient", "noproc", True),
        ("temporary", "boom", False),
        ("temporary", "normal", False),
    ],
)
def test_who_is_started_again(restart: str, reason: object, again: bool) -> None:
    """Permanent always, transient after an abnormal end, temporary never."""
    assert starts_again(restart, reason) is again  # type: ignore[arg-type]


@pytest.mark.parametrize("failed", IDS)
def test_what_each_strategy_disturbs(failed: str) -> None:
    """one_for_one only the failed one, one_for_all everybody, rest_for_one it and those after it, in start order."""
    assert disturbed_by("one_for_one", IDS, failed) == [failed]
    assert disturbed_by("one_for_all", IDS, failed) == IDS
    assert disturbed_by("rest_for_one", IDS, failed) == IDS[IDS.index(failed) :]


@pytest.mark.parametrize(
    ("mode", "significant", "left", "stops"),
    [
        ("never", True, False, False),
        ("any_significant", False, False, False),
        ("any_significant", True, True, True),
        ("all_significant", True, True, False),
        ("all_significant", True, False, True),
        ("all_significant", False, False, False),
    ],
)
def test_when_a_supervisor_ends_by_itself(mode: str, significant: bool, left: bool, stops: bool) -> None:
    """Only the end of a significant child counts: any one, or the last."""
    assert stops_supervisor(mode, significant=significant, significant_left=left) is stops  # type: ignore[arg-type]


@given(
    limit=st.integers(0, 5),
    period_s=st.floats(0.5, 10),
    steps=st.lists(st.floats(0, 5), min_size=1, max_size=40),
)
def test_the_window_gives_up_exactly_when_too_many_restarts_fall_into_it(
    limit: int, period_s: float, steps: list[float]
) -> None:
    """`record` is False if and only if more than `limit` restarts lie within the last `period_s` seconds."""
    window, at_s, now_s = RestartWindow(limit, period_s), [], 0.0
    for step in steps:
        now_s += step
        at_s.append(now_s)
        recent = [moment for moment in at_s if moment >= now_s - period_s]
        assert window.record(now_s) is (len(recent) <= limit)


@pytest.mark.requirement("BR-143")
def test_time_spent_on_stopping_does_not_age_a_restart() -> None:
    """Restarts six seconds apart, of which six went into shutting siblings down, still exhaust three in five."""
    window, now_s = RestartWindow(3, 5.0), 0.0
    kept_going = []
    for _ in range(4):
        kept_going.append(window.record(now_s))
        now_s += 6.0
        window.discount(6.0)
    assert kept_going == [True, True, True, False]


def test_a_backoff_grows_up_to_its_bound() -> None:
    """Without jitter: twice as long each time, never longer than the bound, no overflow however often."""
    backoff = Backoff(initial_s=1.0, max_s=8.0, factor=2.0, jitter=0.0)
    assert [backoff.delay_s(n, Random(1)) for n in (1, 2, 3, 4, 5, 10_000)] == [1.0, 2.0, 4.0, 8.0, 8.0, 8.0]


@given(restarts=st.integers(1, 50), seed=st.integers())
def test_jitter_stays_within_its_share(restarts: int, seed: int) -> None:
    """A jitter of 0.2 moves the wait by at most a fifth."""
    exact = Backoff(jitter=0.0).delay_s(restarts, Random(seed))
    moved = Backoff(jitter=0.2).delay_s(restarts, Random(seed))
    assert exact * 0.799 <= moved <= exact * 1.201


def spec(name: str, **options: object) -> ChildSpec:
    return ChildSpec(name, start, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("specs", "auto_shutdown", "reason"),
    [
        ([spec("a"), spec("a")], "never", ("duplicate_child_name", "a")),
        (
            [spec("a", restart="transient", significant=True)],
            "never",
            ("bad_combination", [("auto_shutdown", "never"), ("significant", True)]),
        ),
        (
            [spec("a", restart="permanent", significant=True)],
            "any_significant",
            ("bad_combination", [("restart", "permanent"), ("significant", True)]),
        ),
        (["a"], "never", ("invalid_child_spec", "a")),
    ],
)
def test_specs_that_contradict_each_other_are_refused(specs: list[object], auto_shutdown: str, reason: object) -> None:
    """The reason is the BEAM's term."""
    with pytest.raises(BadChildSpec) as refused:
        check_specs(specs, auto_shutdown)  # type: ignore[arg-type]
    assert refused.value.reason == reason


@pytest.mark.parametrize("field", ["initial_s", "max_s", "factor", "jitter"])
@pytest.mark.parametrize("value", [-1, float("nan"), float("inf"), "soon", None, True])
def test_a_backoff_of_nonsense_is_refused_where_it_is_written(field: str, value: object) -> None:
    """A wait is a number from 0 on; jitter a share of it, from 0 to 1."""
    with pytest.raises(BadArgument):
        Backoff(**{field: value})  # type: ignore[arg-type]


def test_more_jitter_than_the_whole_wait_is_refused() -> None:
    """It would make the wait negative."""
    with pytest.raises(BadArgument):
        Backoff(jitter=1.5)
