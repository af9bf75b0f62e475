"""What several answers come to."""

import pytest
from attrs import evolve

from coding_agent.errors import BadExtension
from coding_agent.extensions import hooks, reducers
from coding_agent.extensions.api import Extension
from lemon_ai import StreamOptions


def fold(name, *answers, begin=None):
    rule, _ = reducers.RULES[name]
    standing = dict(begin or {})
    for answer in answers:
        standing, last = rule(standing, reducers.answered(answer))
        if last:
            break
    return standing


@pytest.mark.parametrize(
    ("name", "answers", "gives"),
    [
        ("tool_call", [None, {"block": False}, {"block": True, "reason": "a"}, {"block": True, "reason": "b"}],
         {"block": True, "reason": "a"}),
        ("tool_result", [{"content": []}, {"details": 1}, {"is_error": True, "details": 2}],
         {"content": (), "details": 2, "is_error": True}),
        ("session_before_compact", [{"summary": "a"}, {"summary": "b"}], {"summary": "b"}),
        ("session_before_compact", [{"summary": "a"}, {"cancel": True}, {"summary": "b"}], {"cancel": True}),
        ("input", [{"text": "a"}, {"text": "b"}], {"text": "b"}),
        ("input", [{"handled": True}, {"text": "b"}], {"handled": True}),
        ("user_bash", [None, {"output": "a"}, {"output": "b"}], {"output": "a"}),
        ("resources_discover", [{"skill_paths": ["a"]}, {"skill_paths": ["b"], "prompt_paths": ["c"]}],
         {"skill_paths": ["a", "b"], "prompt_paths": ["c"]}),
        ("before_provider_payload", [{"payload": {"a": 1}}, None], {"payload": {"a": 1}}),
    ],
)  # fmt: skip
def test_each_point_has_its_rule(name, answers, gives):
    """First, last, together, or one from the other."""
    assert fold(name, *answers) == gives


def test_headers_go_name_by_name():
    """None takes one away; None for the map takes all."""
    begin = {"options": StreamOptions(headers={"a": "1"}, metadata={"m": 1})}
    patched = fold("before_provider_request", {"options": {"headers": {"a": None, "b": "2"}}}, begin=begin)["options"]
    assert dict(patched.headers) == {"b": "2"}
    assert dict(patched.metadata) == {"m": 1}
    cleared = fold("before_provider_request", {"options": {"headers": None}}, begin=begin)["options"]
    assert dict(cleared.headers) == {}


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("tool_call", "yes"),
        ("tool_call", {"block": True, "reason": 3}),
        ("tool_result", {"content": "text"}),
        ("context", {"messages": ["hi"]}),
        ("context", {"messages": "hi"}),
        ("before_agent_start", {"system_prompt": 1}),
        ("before_agent_start", {"messages": ["hi"]}),
        ("before_agent_start", {"messages": [{"content": "no type"}]}),
        ("before_provider_payload", {"payload": []}),
        ("session_before_tree", {"label": 1}),
        ("input", {"text": 1}),
        ("resources_discover", {"skill_paths": [1]}),
    ],
)
def test_an_answer_that_cannot_be_meant_is_refused(name, answer):
    """So that it is told, instead of breaking something later."""
    with pytest.raises(reducers.BadAnswer):
        fold(name, answer)


def test_the_next_handler_is_told_what_stands():
    """Where answers are made one from the other."""
    event = hooks.ToolResultEvent("1", "look", {}, ("a",), None, False)
    _, told = reducers.RULES["tool_result"]
    assert told(event, {"content": ("b",)}) == evolve(event, content=("b",))


def test_registering_what_cannot_be_is_refused_at_once():
    """With the extension's name; an async handler where nothing can be waited for is one such thing."""
    lemon = Extension("x", "/x.py")

    async def waits(event):
        pass

    for attempt in (
        lambda: lemon.on("tool_cal", print),
        lambda: lemon.on("context", 3),
        lambda: lemon.on("resources_discover", waits),
        lambda: lemon.register_tool(3),
        lambda: lemon.register_command("a b", print),
        lambda: lemon.register_flag("Bad_Name"),
        lambda: lemon.register_flag("count", int),
        lambda: lemon.register_shortcut("ctrl+enter", print),
        lambda: lemon.register_shortcut("f21", print),
        lambda: lemon.register_message_renderer("", print),
        lambda: lemon.register_provider("acme", {"models": [{}]}),
        lambda: lemon.register_provider("acme", {"api": "carrier-pigeon"}),
        lambda: lemon.register_provider("acme", {}, provider=object()),
    ):
        with pytest.raises(BadExtension, match="extension x"):
            attempt()


def test_decorators_register_and_leave_the_function_as_it_is():
    """`on` and `register_command` without a handler."""
    lemon = Extension("x", "/x.py")

    @lemon.on("context")
    def handler(event, session):
        return None

    @lemon.register_command("hello", description="Greets.")
    def command(args, session):
        return args

    assert lemon.handlers == {"context": [handler]}
    assert lemon.commands["hello"].run is command
    assert command("a", None) == "a"
