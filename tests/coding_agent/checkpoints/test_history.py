"""What a session can go back over: forks, subagents, and who else writes checkpoints meanwhile."""

import json
from pathlib import Path

import pytest
from attrs import evolve

from coding_agent.checkpoints.history import history_of, root_of
from coding_agent.checkpoints.records import FileChange, FileState
from coding_agent.checkpoints.store import CheckpointStore, store_for
from tests.flows.hosts import Machine

SCRIPTED = ("--model", "scripted/echo")


def session(folder: Path, name: str, parent: Path | None = None, began: str = "1970-01-01T00:00:01Z") -> Path:
    """A session file with nothing in it but its header."""
    file = folder / f"{name}.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    header = {"type": "session", "id": name, "timestamp": began} | ({"parentSession": str(parent)} if parent else {})
    file.write_text(json.dumps(header) + "\n")
    return file


def record(store: CheckpointStore, at_ms: int, path: str, session_name: str = "") -> str:
    """One checkpoint about one file, and the content it keeps."""
    sha = store.put(f"{path} at {at_ms}".encode())
    begun = evolve(store.begin("files", f"t{at_ms}", "write", session_name), at_ms=at_ms)
    store.save(begun.with_files((FileChange(path, FileState(sha, 0o644, 9), None),), store.next_settled()))
    return sha


def times(file: Path) -> list[int]:
    return [each.at_ms for each in history_of(file).all()]


def test_a_fork_counts_what_was_done_before_it_was_forked(tmp_path):
    """
    Of the session it came out of, and of the one that came out of, each up to its moment; in one order, with contents
    found wherever they are kept; what is written goes into its own store.
    """
    first = session(tmp_path, "first")
    second = session(tmp_path, "second", first, "1970-01-01T00:00:02Z")
    third = session(tmp_path, "third", second, "1970-01-01T00:00:03Z")
    shas = [record(store_for(first), at, "/f") for at in (1000, 2000, 2500, 9000)]
    shas += [record(store_for(second), at, "/f") for at in (2100, 3500)]
    record(store_for(third), 4000, "/g")

    assert times(third) == [1000, 2000, 2100, 4000]
    assert times(second) == [1000, 2000, 2100, 3500]
    assert times(first) == [1000, 2000, 2500, 9000]
    history = history_of(third)
    settled = [each.settled for each in history.all()]
    ids = [each.id for each in history.all()]
    assert settled == sorted(set(settled))
    assert ids == sorted(set(ids))
    assert history.get(shas[0]) == b"/f at 1000"
    assert history.has(shas[4])
    assert not history.has("0" * 64)
    history.save(history.begin("rewind", "", "rewind"))
    assert len(store_for(third).all()) == 2
    assert len(store_for(first).all()) == 4


def test_a_subagent_counts_its_own_calls_in_its_parents_store(tmp_path):
    """Also where the parent is a subagent itself; the parent counts everybody's."""
    parent = session(tmp_path, "parent")
    child = session(tmp_path / "parent/subagents", "child", parent)
    grandchild = session(tmp_path / "parent/subagents/child/subagents", "grandchild", child)
    store = store_for(parent)
    for at_ms, name in ((1, "parent"), (2, "child"), (3, "grandchild"), (4, "child")):
        record(store, at_ms, "/f", name)

    assert times(child) == [2, 4]
    assert times(grandchild) == [3]
    assert times(parent) == [1, 2, 3, 4]
    assert root_of(grandchild) == parent


@pytest.mark.parametrize(
    "damage", ["", "no json\n", "[]\n", '{"parentSession": 3}\n', '{"parentSession": "/no/such"}\n']
)
def test_a_file_that_says_nothing_about_where_it_came_from_has_its_own_checkpoints(tmp_path, damage):
    """Damaged, missing, or the child of one that is gone; two that name each other end the search."""
    file = tmp_path / "s.jsonl"
    file.write_text(damage)
    record(store_for(file), 5, "/f")
    assert times(file) == [5]

    one, two = session(tmp_path, "one", tmp_path / "two.jsonl"), session(tmp_path, "two", tmp_path / "one.jsonl")
    record(store_for(one), 6, "/f")
    assert times(one) == [6]
    assert times(two) == [6]


def test_two_that_write_checkpoints_of_one_session_do_not_overwrite_each_other(tmp_path):
    """A `rewind` from elsewhere while the session runs takes numbers of its own."""
    file = session(tmp_path, "s")
    running, other = store_for(file), store_for(file)
    record(running, 1, "/a")
    record(other, 2, "/b")
    record(running, 3, "/c")
    record(other, 4, "/d")

    found = store_for(file).all()
    assert [each.at_ms for each in found] == [1, 2, 3, 4]
    assert len({each.settled for each in found}) == 4


def words(*tool_calls: tuple[str, dict]) -> str:
    return "\n".join([*(f"@tool {name} {json.dumps(args)}" for name, args in tool_calls), "@turn", "@text Done."])


def entry(file: Path, role: str) -> str:
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    return [each["id"] for each in lines if each["type"] == "message" and each["message"]["role"] == role][-1]


@pytest.fixture
def machine(tmp_path_factory) -> Machine:
    return Machine(tmp_path_factory.mktemp("m"))


def test_what_a_subagent_did_is_undone_with_its_parent_or_by_itself(machine):
    """Two subagents change a file each; going back in the file of one brings back its file, in the parent's both."""
    for name in ("a", "b"):
        (machine.project / name).write_text("mine")
    inner = {name: words(("write", {"path": name, "content": "theirs"})) for name in ("a", "b")}
    done = machine.run("-p", words(*(("task", {"prompt": prompt}) for prompt in inner.values())), *SCRIPTED)
    assert done.returncode == 0, done.stderr
    children = sorted(machine.session_dir.rglob("subagents/*.jsonl"))
    (parent,) = [path for path in machine.session_files() if path not in children]
    (child,) = [path for path in children if '"path":"a"' in path.read_text().replace(" ", "")]

    rewound = machine.run("rewind", str(child), entry(child, "user"), "--code")
    assert rewound.returncode == 0, rewound.stderr
    assert [(machine.project / name).read_text() for name in ("a", "b")] == ["mine", "theirs"]
    rewound = machine.run("rewind", str(parent), entry(parent, "user"), "--code")
    assert [(machine.project / name).read_text() for name in ("a", "b")] == ["mine", "mine"], rewound.stderr


def test_a_fork_can_go_back_to_before_it_was_forked(machine):
    """What its origin had changed until then comes back; what the origin changed afterwards is left alone and said."""
    (machine.project / "f").write_text("first")
    (machine.project / "g").write_text("first")
    for content, flag in (("second", "-q"), ("third", "--continue")):
        done = machine.run(flag, "-p", words(("write", {"path": "f", "content": content})), *SCRIPTED)
        assert done.returncode == 0, done.stderr
    (origin,) = machine.session_files()
    second_prompt = entry(origin, "user")
    forked = machine.run("sessions", "fork", str(origin))
    assert forked.returncode == 0, forked.stderr
    (fork,) = [path for path in machine.session_files() if path != origin]
    later = machine.run("--session", str(origin), "-p", words(("write", {"path": "g", "content": "later"})), *SCRIPTED)
    assert later.returncode == 0, later.stderr

    rewound = machine.run("rewind", str(fork), second_prompt, "--code")
    assert rewound.returncode == 0, rewound.stderr
    assert (machine.project / "f").read_text() == "second"
    assert (machine.project / "g").read_text() == "later"
