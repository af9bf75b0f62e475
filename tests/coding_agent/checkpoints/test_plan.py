"""What going back does to files, decided from records alone."""

from hypothesis import given
from hypothesis import strategies as st

from coding_agent.checkpoints.plan import Moment, plan
from coding_agent.checkpoints.records import ABSENT, Checkpoint, FileChange, FileState, checkpoint_from_json


def state(letter: str, mode: int = 0o644) -> FileState:
    return FileState(letter * 64, mode, 1)


A, B, C = state("a"), state("b"), state("c")


def changed(number: int, path: str, before, after, *, at: int, call: str = "", settled: int | None = 0) -> Checkpoint:
    order = number if settled == 0 else settled
    return Checkpoint(
        f"c{number:08d}", "files", call or f"t{number}", "write", at, (FileChange(path, before, after),), order
    )


def decide(checkpoints, moment, disk, kept="abc"):
    return plan(checkpoints, moment, lambda path: disk.get(path, ABSENT), lambda sha: sha[0] in kept)


def what(found) -> dict[str, str]:
    return {step.path: step.what for step in found.steps}


def test_a_file_becomes_what_it_was_before_the_first_change_that_is_undone():
    """Several changes of one file: the oldest undone one says what it was."""
    history = [changed(1, "/f", A, B, at=10), changed(2, "/f", B, C, at=20)]

    assert decide(history, Moment(5), {"/f": C}).steps[0].target == A
    assert decide(history, Moment(15), {"/f": C}).steps[0].target == B
    assert decide(history, Moment(25), {"/f": C}).steps == ()


def test_a_file_that_was_not_there_is_deleted_and_a_deleted_one_comes_back():
    """Absence is a state too."""
    history = [changed(1, "/new", ABSENT, B, at=10), changed(2, "/gone", A, ABSENT, at=10)]

    assert what(decide(history, Moment(0), {"/new": B})) == {"/new": "delete", "/gone": "create"}


def test_a_file_that_somebody_else_changed_since_is_a_conflict():
    """What the tool left is compared with what is on disk; it is not known, it is not touched either."""
    assert what(decide([changed(1, "/f", A, B, at=10)], Moment(0), {"/f": C})) == {"/f": "conflict"}
    assert what(decide([changed(1, "/f", A, None, at=10)], Moment(0), {"/f": B})) == {"/f": "conflict"}
    assert what(decide([changed(1, "/f", A, None, at=10, settled=None)], Moment(0), {"/f": B})) == {"/f": "conflict"}
    assert what(decide([changed(1, "/f", A, B, at=10)], Moment(0), {})) == {"/f": "conflict"}
    assert what(decide([changed(1, "/f", A, B, at=10)], Moment(0), {"/f": None})) == {"/f": "conflict"}


def test_a_file_that_is_already_as_it_was_needs_nothing():
    """Even when nobody knows who put it back."""
    assert what(decide([changed(1, "/f", A, None, at=10)], Moment(0), {"/f": A})) == {"/f": "nothing"}


def test_only_the_mode_is_put_back_where_only_the_mode_is_other():
    """The content stays as it is."""
    other = state("a", 0o755)
    assert what(decide([changed(1, "/f", other, A, at=10)], Moment(0), {"/f": A})) == {"/f": "mode"}


def test_a_content_that_is_gone_is_a_conflict():
    """Nothing is replaced by nothing."""
    assert what(decide([changed(1, "/f", A, B, at=10)], Moment(0), {"/f": B}, kept="")) == {"/f": "conflict"}


def test_of_two_calls_in_one_turn_only_the_one_without_result_before_the_entry_is_undone():
    """The moment is the first of two results: the second call is undone though both began before it."""
    history = [changed(1, "/a", A, B, at=10, call="one"), changed(2, "/b", A, B, at=10, call="two")]

    assert what(decide(history, Moment(10, {"one": 10}), {"/a": B, "/b": B})) == {"/b": "write"}


def test_an_id_that_a_provider_used_again_is_told_apart_by_time():
    """The first call of that id is kept, the second undone."""
    history = [changed(1, "/f", A, B, at=10, call="x"), changed(2, "/f", B, C, at=30, call="x")]

    assert decide(history, Moment(12, {"x": 12}), {"/f": C}).steps[0].target == B


def test_the_call_that_ended_last_says_what_stands_there():
    """Two calls at work at once end in another order than they began."""
    history = [changed(1, "/f", A, C, at=10, settled=2), changed(2, "/f", A, B, at=10, settled=1)]

    assert what(decide(history, Moment(0), {"/f": C})) == {"/f": "write"}


def test_going_back_can_be_repeated():
    """A rewind is a change of ours like any other: after it the file is what we left."""
    rewind = Checkpoint("c00000002", "rewind", "", "rewind", 20, (FileChange("/f", B, A),), 2)
    history = [changed(1, "/f", A, B, at=10), rewind, changed(3, "/f", A, C, at=30)]

    assert decide(history, Moment(0), {"/f": C}).steps[0].what == "write"
    assert what(decide(history[:2], Moment(0), {"/f": A})) == {"/f": "nothing"}


def test_what_commands_changed_is_named():
    """Nobody kept it, so it is said and not undone; files of tools are not named twice."""
    shell = Checkpoint(
        "c2", "shell", "t", "bash", 20, (FileChange("/f", None), FileChange("/g", None)), 2, partial=True
    )
    found = decide([changed(1, "/f", A, B, at=10), shell], Moment(0), {"/f": B})

    assert (found.by_commands, found.partial) == (("/g",), True)
    assert decide([changed(1, "/f", A, B, at=10), shell], Moment(25), {"/f": B}).by_commands == ()


states = st.sampled_from([A, B, C, ABSENT])


@given(
    st.lists(st.tuples(st.sampled_from("fg"), states), max_size=8),
    st.integers(0, 9),
    st.dictionaries(st.sampled_from(["/f", "/g"]), states),
)
def test_no_file_is_ever_touched_that_is_not_as_we_left_it(writes, moment, foreign):
    """Whatever the history and whatever somebody else did: a step that changes a file found it as a tool left it."""
    disk: dict[str, FileState] = {}
    history = []
    for number, (name, after) in enumerate(writes, 1):
        path = f"/{name}"
        history.append(changed(number, path, disk.get(path, ABSENT), after, at=number))
        disk[path] = after
    now = disk | foreign

    for step in decide(history, Moment(moment), now).changes:
        assert now.get(step.path, ABSENT) == disk[step.path]
        assert step.target == next(
            each.files[0].before for each in history if each.at_ms >= moment and each.files[0].path == step.path
        )


@given(states, states, st.integers(0, 2**40), st.text(max_size=20))
def test_a_checkpoint_is_read_as_it_was_written(before, after, at, path):
    """JSON and back."""
    made = changed(3, path, before, after, at=at)
    assert checkpoint_from_json(made.to_json()) == made
