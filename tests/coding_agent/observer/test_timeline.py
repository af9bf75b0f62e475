"""What happened lately, told in a few words whatever it happened to."""

from typing import Any

from coding_agent.observer.timeline import Timeline
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
    timeline.start()
    top = await Supervisor.start_link([Idle.child_spec(1, id=Nameless()), Idle.child_spec(2, id="b")], name="top")
    for child in await Supervisor.which_children(top):
        exit_signal(child.pid, "boom")
        await settle()
    assert [item["id"] for item in timeline.history() if item["kind"] == "restart"] == ["Nameless()", "b"]
    told = {"supervisor": top, "id": 10**6_000}
    telemetry.execute(("lemon_otp", "supervisor", "start_error"), {}, told)
    assert timeline.history()[-1]["id"] == "<int of 19932 bits>"
    assert len(said) == len(timeline.history())
    timeline.stop()
