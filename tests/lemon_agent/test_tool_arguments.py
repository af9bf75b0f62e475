"""A model's arguments against a schema: bent where the meaning is plain, refused with a path where it is not."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from lemon_agent import check_arguments
from lemon_agent.tool_arguments import Checker, checker_for


def props(**properties):
    return {"type": "object", "properties": properties}


def one(schema, value):
    return check_arguments(props(x=schema), {"x": value})


@pytest.mark.requirement("TOOL-13")
@pytest.mark.parametrize(
    ("schema", "value", "fitted"),
    [
        ({"type": "integer"}, "42", 42),
        ({"type": "integer"}, " -7 ", -7),
        ({"type": "integer"}, 3.0, 3),
        ({"type": "number"}, "2.5", 2.5),
        ({"type": "number"}, "3", 3),
        ({"type": "boolean"}, " TRUE ", True),
        ({"type": "boolean"}, "false", False),
        ({"type": "object"}, '{"a": 1}', {"a": 1}),
        ({"type": "array", "items": {"type": "integer"}}, '["1", 2]', [1, 2]),
        ({"type": "array", "items": {"type": "string"}}, "solo", ["solo"]),
        ({"type": "array"}, 5, [5]),
        ({"type": "string"}, "5", "5"),
        ({"type": "string", "nullable": True}, None, None),
        ({"type": ["string", "null"]}, "null", None),
        ({"type": "integer", "nullable": True}, "null", None),
        ({"type": ["integer", "string"]}, "12", "12"),
        ({"type": ["integer", "boolean"]}, "12", 12),
        ({"type": ["integer", "boolean"]}, "true", True),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "12", 12),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, None, None),
        ({"type": "something new"}, {"kept": True}, {"kept": True}),
        ({}, "anything", "anything"),
    ],
)
def test_values_are_bent_to_the_type_they_plainly_mean(schema, value, fitted):
    """Numbers and booleans in quotes, JSON in a string, a lone value for a list, null where it is allowed."""
    checked = one(schema, value)
    assert checked.errors == ()
    assert checked.arguments == {"x": fitted}
    assert type(checked.arguments["x"]) is type(fitted)


@pytest.mark.requirement("TOOL-13")
@pytest.mark.parametrize(
    ("schema", "value", "error"),
    [
        ({"type": "integer"}, "4.5", "x: expected integer"),
        ({"type": "integer"}, True, "x: expected integer"),
        ({"type": "integer"}, "12abc", "x: expected integer"),
        ({"type": "integer"}, "1_000", "x: expected integer"),
        ({"type": "integer"}, "\u0663", "x: expected integer"),
        ({"type": "number"}, "1_0.5", "x: expected number"),
        ({"type": "number"}, "NaN", "x: expected number"),
        ({"type": "boolean"}, 1, "x: expected boolean"),
        ({"type": "string"}, 5, "x: expected string"),
        ({"type": "string"}, None, "x: expected string"),
        ({"type": "object"}, "[1]", "x: expected object"),
        ({"type": "array"}, {"a": 1}, "x: expected array"),
        ({"type": "array", "items": {"type": "integer"}}, ["1", "b"], "x: 1: expected integer"),
        ({"type": ["integer", "boolean"]}, "maybe", "x: expected integer or boolean"),
        (props(y={"type": "integer"}), {"y": "z"}, "x: y: expected integer"),
        ({**props(y={"type": "integer"}), "required": ["y"]}, {}, 'x: missing required argument "y"'),
    ],
)
def test_what_cannot_be_meant_is_told_with_its_path(schema, value, error):
    """Each error says where and what was expected."""
    assert one(schema, value).errors == (error,)


def test_everything_that_is_wrong_is_told_at_once():
    """All errors are collected, missing names too."""
    schema = {**props(a={"type": "integer"}, b={"type": "boolean"}), "required": ["a", "b", "c"]}
    assert check_arguments(schema, {"a": "x", "b": "y"}).errors == (
        "a: expected integer",
        "b: expected boolean",
        'missing required argument "c"',
    )


def test_the_model_s_own_arguments_are_not_changed():
    """Coercion works on a copy, nested values included."""
    given_arguments = {"x": {"y": ["1"]}}
    schema = props(x=props(y={"type": "array", "items": {"type": "integer"}}))
    checked = check_arguments(schema, given_arguments)
    assert checked.arguments == {"x": {"y": [1]}}
    assert given_arguments == {"x": {"y": ["1"]}}


@pytest.mark.parametrize("schema", [{"type": "string", "pattern": "("}, {"$ref": "#/nowhere"}])
def test_a_schema_that_cannot_be_used_is_told_to_the_model(schema):
    """A tool whose schema is broken says so in the call's result; the run goes on."""
    [error] = one(schema, "a").errors
    assert error.startswith("the tool's own schema cannot be used")


def test_undeclared_arguments_are_kept_unless_the_schema_forbids_them():
    """A tool that says nothing gets what the model wrote; one that closes its schema does not."""
    assert check_arguments(props(), {"extra": 1}).arguments == {"extra": 1}
    closed = {**props(x={"type": "integer"}), "additionalProperties": False}
    [error] = check_arguments(closed, {"x": "1", "extra": 1}).errors
    assert "extra" in error


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"enum": ["a", "b"]}, "c"),
        ({"type": "integer", "minimum": 5}, "3"),
        ({"type": "string", "pattern": "^a"}, "b"),
        ({"type": "array", "minItems": 2}, "solo"),
        ({"type": "string", "const": "x"}, "y"),
    ],
)
def test_the_rest_of_a_schema_is_held_to_after_coercion(schema, value):
    """Enumerations, ranges, patterns and counts are checked on the coerced copy."""
    [error] = one(schema, value).errors
    assert error.startswith("x: ")


@pytest.mark.parametrize(("schema", "value"), [({"type": "integer", "minimum": 5}, "7"), ({"enum": ["a", None]}, None)])
def test_a_value_that_fits_after_coercion_passes_the_rest(schema, value):
    """Only what is still wrong is an error."""
    assert one(schema, value).errors == ()


def test_nullable_is_understood_beside_other_keywords():
    """`nullable: true` is not JSON schema's own; it holds all the same."""
    assert one({"type": "string", "nullable": True, "minLength": 2}, None).errors == ()
    assert one({"type": "string", "nullable": True, "minLength": 2}, "a").errors != ()


@pytest.mark.parametrize("arguments", [None, 7, "text", [1]])
def test_arguments_are_an_object_and_nothing_else(arguments):
    """Anything else is refused, whatever the schema."""
    [error] = check_arguments(props(), arguments).errors
    assert error.startswith("expected object")


def test_a_schema_is_made_ready_once():
    """Two checks with the same schema object use the same checker; another object with equal content has its own."""
    schema = props(x={"type": "integer"})
    assert checker_for(schema) is checker_for(schema)
    assert checker_for(schema) is not checker_for(dict(schema))


def test_an_old_checker_gives_way_when_there_are_too_many():
    """The cache is bounded, and one that was dropped is made anew."""
    first = props(x={"type": "integer"})
    kept = checker_for(first)
    for number in range(600):
        checker_for(props(x={"type": "integer"}, y={"const": number}))
    assert checker_for(first) is not kept


plain = st.recursive(
    st.sampled_from(["string", "integer", "number", "boolean", "object", "array", "null"]).map(lambda t: {"type": t}),
    lambda inner: st.one_of(
        st.builds(lambda s: {"type": "array", "items": s}, inner),
        st.builds(
            lambda d, r: {"type": "object", "properties": d, "required": r},
            st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
            st.lists(st.sampled_from("ab"), unique=True, max_size=2),
        ),
    ),
    max_leaves=4,
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)


schemas = st.dictionaries(st.sampled_from("xy"), plain, max_size=2)
arguments = st.dictionaries(st.sampled_from("xyz"), values, max_size=3)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(schemas, arguments)
def test_what_passes_for_a_plain_schema_is_valid_for_jsonschema_too(properties, arguments):
    """For schemas of types alone jsonschema is not asked; it would have agreed."""
    schema = {"type": "object", "properties": properties}
    checker = Checker(schema)
    checked = checker.check(arguments)
    assert not checker._needs_rest
    assert (checked.errors == ()) == Draft202012Validator(schema).is_valid(checked.arguments)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(schemas, arguments)
def test_arguments_that_are_valid_already_are_left_as_they_are(properties, arguments):
    """Coercion changes nothing that jsonschema accepts, but a whole number written as a float."""
    schema = {"type": "object", "properties": properties}
    if Draft202012Validator(schema).is_valid(arguments):
        checked = Checker(schema).check(arguments)
        assert checked.errors == ()
        assert checked.arguments == arguments
