"""What happened lately, told in a few words whatever it happened to."""

from typing import Any

from coding_agent.observer.recorder import Recorder
from coding_agent.observer.timeline import RUNS_MAX, Timeline
from lemon_otp import GenServer, Supervisor, exit_signal, telemetry
from lemon_otp.testing import settle


class Nameless:
    """Whatever is asked of it raises."""

    def __str__(self) -> str:
        raise RuntimeError("no")

    __repr__ = __str__


class Idle(GenServer[Any, Any, Any, Any]):
    async def init(self, arg: Any) -> Any:
        return arg


async def test_a_child_whose_id_is_an_object_is_told_of_as_any_other(runtime: Any) -> None:
    """It is not asked what it is called: a handler that raised would never be called again."""
    said: list[tuple[str, Any]] = []
    timeline = Timeline(lambda name, value: said.append((name, value)))
    recorder = Recorder(lambda name, value: timeline.happened(value) if name == "history" else None)
    recorder.start()
    top = await Supervisor.start_link([Idle.child_spec(1, id=Nameless()), Idle.child_spec(2, id="b")], name="top")
    for child in await Supervisor.which_children(top):
        exit_signal(child.pid, "boom")
        await settle()
    assert [item["id"] for item in timeline.history() if item["kind"] == "restart"] == ["Nameless()", "b"]
    told = {"supervisor": top, "id": 10**6_000}
    telemetry.execute(("lemon_otp", "supervisor", "start_error"), {}, told)
    assert timeline.history()[-1]["id"] == "<int of 19932 bits>"
    assert len(said) == len(timeline.history())
    recorder.stop()


def bar(run: int, number: int, to: int | None = None) -> dict[str, Any]:
    return {"n": number, "run": run, "from": 1, "to": to}


def test_of_many_runs_the_oldest_that_is_over_is_forgotten() -> None:
    """What is under way stays, however old; a page is told what it need not show any more."""
    said: list[tuple[str, Any]] = []
    timeline = Timeline(lambda name, value: said.append((name, value)))
    for run in range(RUNS_MAX):
        timeline.step(bar(run, run))
    timeline.step(bar(3, 100))
    timeline.step(bar(3, 3, to=5))
    timeline.step(bar(RUNS_MAX + 100, RUNS_MAX + 100))
    assert ("forget", 3) in said
    assert 3 not in {each["run"] for each in timeline.bars()}
    assert 0 in {each["run"] for each in timeline.bars()}
