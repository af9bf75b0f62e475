"""Applications: started after what they depend on, stopped before it."""

from typing import Any

import pytest

from lemon_otp import (
    AlreadyStarted,
    Application,
    ApplicationFailed,
    BadArgument,
    ChildSpec,
    NotFound,
    NotStarted,
    Pid,
    Runtime,
    StartFailed,
    Supervisor,
    ensure_all_started,
    exit_signal,
    fetch_env,
    get_env,
    load,
    put_env,
    receive,
    running_applications,
    self_pid,
    send,
    spawn,
    start_application,
    stop_all,
    stop_application,
    whereis,
)
from lemon_otp.testing import settle
from tests.lemon_otp.trees import Journal, child, end, failing, pids

pytestmark = pytest.mark.usefixtures("runtime")


def application(journal: Journal, name: str, *deps: Any, children: list[ChildSpec] | None = None) -> Application:
    """An application with one child, whose hooks note when they are called."""
    specs = [child(journal, f"{name}.child")] if children is None else children

    async def start() -> Pid:
        journal.append(("app", name))
        return await Supervisor.start_link(specs, name=f"{name}.supervisor")

    async def prep_stop() -> None:
        journal.append(("prep_stop", name))

    return Application(name, start, deps, prep_stop=prep_stop, stop=lambda: journal.append(("stopped", name)))


def left() -> list[Pid]:
    """Every process but the test's."""
    return [pid for pid in self_pid().runtime.processes.values() if pid is not self_pid()]  # type: ignore[attr-defined]


@pytest.mark.requirement("TREE-8")
async def test_dependencies_start_first_and_stop_last() -> None:
    """ensure_all_started says what it started, in order; stop_all goes back; it can all be started again."""
    journal: Journal = []
    low = application(journal, "low")
    middle = application(journal, "middle", low)
    top = application(journal, "top", middle, low)
    for _ in range(2):
        journal.clear()
        assert await ensure_all_started(top) == ["low", "middle", "top"]
        assert [name for what, name in journal if what == "app"] == ["low", "middle", "top"]
        assert running_applications() == ["low", "middle", "top"]
        assert await ensure_all_started(top) == []
        journal.clear()
        await stop_all()
        assert [name for what, name in journal if what == "stopped"] == ["top", "middle", "low"]
        assert running_applications() == []
        assert left() == []


async def test_an_application_stops_between_its_hooks() -> None:
    """prep_stop, the tree in reverse, stop."""
    journal: Journal = []
    app = application(journal, "app", children=[child(journal, "a"), child(journal, "b")])
    await start_application(app)
    journal.clear()
    await stop_application("app")
    assert journal == [("prep_stop", "app"), ("stop", "b"), ("stop", "a"), ("stopped", "app")]


async def test_a_start_needs_its_dependencies_and_happens_once() -> None:
    """NotStarted names the one that does not run; a second start is refused; so is a stop of what does not run."""
    journal: Journal = []
    app = application(journal, "app", application(journal, "dep"))
    with pytest.raises(NotStarted) as missing:
        await start_application(app)
    assert missing.value.reason == ("not_started", "dep")
    await ensure_all_started(app)
    with pytest.raises(AlreadyStarted) as again:
        await start_application("app")
    assert again.value.reason == ("already_started", "app")
    await stop_application("app")
    with pytest.raises(NotStarted):
        await stop_application("app")
    assert running_applications() == ["dep"]


async def test_a_failed_start_unwinds() -> None:
    """What the application had started is gone, and what this call had started before it is stopped, in reverse."""
    journal: Journal = []
    good = application(journal, "good")
    bad = application(
        journal, "bad", good, children=[child(journal, "a"), failing([1], child(journal, "b"), "no config")]
    )
    with pytest.raises(ApplicationFailed) as failed:
        await ensure_all_started(bad)
    assert failed.value.application == "bad"
    assert failed.value.reason == ("shutdown", ("failed_to_start_child", "b", "no config"))
    assert journal[-4:] == [("stop", "a"), ("prep_stop", "good"), ("stop", "good.child"), ("stopped", "good")]
    assert running_applications() == []
    assert left() == []


async def test_an_error_of_the_start_function_is_the_cause() -> None:
    """Whatever it raises."""
    error = ValueError("broken")

    async def start() -> Pid:
        raise error

    with pytest.raises(ApplicationFailed) as failed:
        await start_application(Application("app", start))
    assert failed.value.__cause__ is error

    async def refuses() -> Pid:
        raise StartFailed("no config")

    with pytest.raises(ApplicationFailed) as failed:
        await start_application(Application("other", refuses))
    assert failed.value.reason == "no config"


async def test_an_application_whose_tree_gives_up_has_stopped() -> None:
    """It is no longer listed and its stop hook has run; it can be started again."""
    journal: Journal = []
    app = application(journal, "app")
    await start_application(app)
    top = whereis("app.supervisor")
    assert top is not None
    await end((await pids(top))["app.child"])
    assert running_applications() == ["app"]
    exit_signal(top, "kill")
    await settle()
    assert running_applications() == []
    assert ("stopped", "app") in journal
    await start_application(app)
    assert whereis("app.supervisor") is not None


async def test_an_application_outlives_whoever_started_it() -> None:
    """It belongs to the runtime, not to its starter."""
    journal: Journal = []

    async def starter() -> None:
        await start_application(application(journal, "app"))

    spawn(starter)
    await settle()
    assert running_applications() == ["app"]
    assert whereis("app.supervisor") is not None


async def test_stopping_a_dependency_leaves_its_dependents_running() -> None:
    """As on the BEAM."""
    journal: Journal = []
    await ensure_all_started(application(journal, "app", application(journal, "dep")))
    await stop_application("dep")
    assert running_applications() == ["app"]


async def test_an_application_may_be_without_processes() -> None:
    """It runs, can be depended on, and is stopped."""
    library = Application("library", env={"k": 1})
    assert await ensure_all_started(Application("app", deps=(library,))) == ["library", "app"]
    await stop_all()
    assert running_applications() == []


async def test_settings_belong_to_an_application_running_or_not() -> None:
    """From its env, changed by put_env, never the application's own mapping."""
    app = Application("app", env={"k": 1})
    assert get_env("app", "k", "default") == "default"
    load(app)
    assert get_env("app", "k") == 1
    put_env("app", "k", 2)
    put_env("elsewhere", "x", 3)
    assert fetch_env("app", "k") == 2
    assert get_env("elsewhere", "x") == 3
    assert app.env == {"k": 1}
    with pytest.raises(NotFound):
        fetch_env("app", "none")


@pytest.mark.requirement("BR-152")
async def test_async_hooks_are_awaited_and_their_failures_are_seen(caplog: pytest.LogCaptureFixture) -> None:
    """A hook that is a coroutine function runs to its end; one that raises is logged and stops nothing else."""
    journal: Journal = []

    async def prep_stop() -> None:
        await settle()
        journal.append(("prep_stop", "awaited"))
        raise ValueError("broken hook")

    app = Application("app", application(journal, "app").start, prep_stop=prep_stop)
    await start_application(app)
    await stop_application("app")
    assert ("prep_stop", "awaited") in journal
    assert ("stop", "app.child") in journal
    assert "broken hook" in caplog.text


async def test_names_and_cycles_are_checked() -> None:
    """An unknown name, two applications of one name, and applications that depend on each other."""
    with pytest.raises(BadArgument):
        await ensure_all_started("nobody")
    load(Application("app", env={"k": 1}))
    with pytest.raises(BadArgument):
        load(Application("app", env={"k": 2}))
    load(Application("one", deps=("two",)))
    load(Application("two", deps=("one",)))
    with pytest.raises(BadArgument, match="one > two > one"):
        await ensure_all_started("one")


async def test_two_runtimes_do_not_see_each_others_applications() -> None:
    """Nothing is shared."""
    await start_application(Application("app"))
    async with Runtime():
        assert running_applications() == []
        await start_application(Application("app"))
    assert running_applications() == ["app"]


def slow(journal: Journal, name: str) -> tuple[Application, list[Pid]]:
    """An application whose start waits for a message to the process that is noted in the list."""
    waiting: list[Pid] = []

    async def start() -> Pid:
        journal.append(("app", name))
        waiting.append(self_pid())
        await receive(lambda message: message == "go on")
        return await Supervisor.start_link([child(journal, f"{name}.child")])

    return Application(name, start, stop=lambda: journal.append(("stopped", name))), waiting


async def test_two_who_start_an_application_at_the_same_time_start_it_once() -> None:
    """The second waits for the outcome of the first, and has the same."""
    journal: Journal = []
    app, waiting = slow(journal, "a")
    told: list[Any] = []

    async def ask() -> None:
        told.append(await ensure_all_started(app))

    spawn(ask)
    spawn(ask)
    await settle()
    assert (len(waiting), told, running_applications()) == (1, [], [])
    send(waiting[0], "go on")
    await settle()

    assert told == [["a"], ["a"]]
    assert running_applications() == ["a"]
    assert journal.count(("app", "a")) == 1
    await stop_application("a")
    assert left() == []


async def test_a_start_that_fails_fails_for_everybody_who_waits_for_it() -> None:
    """With the reason of the one start."""
    journal: Journal = []
    app, waiting = slow(journal, "a")
    told: list[Any] = []

    async def ask() -> None:
        try:
            await start_application(app)
        except ApplicationFailed as failed:
            told.append((failed.application, failed.reason))

    spawn(ask)
    spawn(ask)
    await settle()
    exit_signal(waiting[0], "kill")
    await settle()

    assert told == [("a", "killed")] * 2
    assert left() == []


async def test_an_application_starts_though_whoever_asked_is_killed_meanwhile() -> None:
    """The start goes on by itself: what it started is known, and can be stopped."""
    journal: Journal = []
    app, waiting = slow(journal, "a")
    asking = spawn(start_application, app)
    await settle()
    exit_signal(asking, "kill")
    send(waiting[0], "go on")
    await settle()

    assert running_applications() == ["a"]
    await stop_application("a")
    assert journal[-1] == ("stopped", "a")
    assert left() == []


async def test_an_application_that_is_being_stopped_is_waited_for() -> None:
    """Whoever stops it too is told that it does not run; whoever starts it starts it again, dependencies first."""
    journal: Journal = []
    told: list[Any] = []
    release: list[Pid] = []

    async def prep_stop() -> None:
        release.append(self_pid())
        await receive(lambda message: message == "go on")

    async def start() -> Pid:
        return await Supervisor.start_link([child(journal, "child")])

    below = Application("below", start, prep_stop=prep_stop)
    above = Application("above", deps=[below])
    await start_application(below)

    async def stop_it() -> None:
        try:
            told.append(await stop_application("below"))
        except NotStarted as error:
            told.append(error.reason)

    async def start_it() -> None:
        told.append(await ensure_all_started(above))

    for ask in (stop_it, stop_it, start_it):
        spawn(ask)
        await settle()
    assert told == []
    send(release[0], "go on")
    await settle()

    assert told == [None, ("not_started", "below"), ["below", "above"]]
    assert running_applications() == ["below", "above"]
    stopping = spawn(stop_all)
    await settle()
    send(release[1], "go on")
    await settle()
    assert not stopping.alive
    assert left() == []


@pytest.mark.parametrize("which", ["prep_stop", "stop"])
async def test_a_hook_that_stops_its_own_application_is_told_that_it_is_stopped(which: str) -> None:
    """It does not wait for itself; one that stops everything stops the others."""
    told: list[Any] = []

    async def hook() -> None:
        with pytest.raises(NotStarted):
            await stop_application("self")
        with pytest.raises(AlreadyStarted):
            await start_application("self")
        await stop_all()
        told.append(running_applications())

    await ensure_all_started(Application("other"), Application("self", **{which: hook}))
    await stop_application("self")
    assert told == [["self"]]
    assert running_applications() == []
