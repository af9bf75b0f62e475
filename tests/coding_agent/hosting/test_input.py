"""What a person typed, on its way to becoming a prompt."""

import pytest
from attrs import frozen

from coding_agent.hosting.input import commands_of, expanded, slash_command


@frozen
class Named:
    name: str
    description: str = "d"
    source: str = "user"
    path: str = "/p"

    def expand(self, args: str = "") -> str:
        return f"{self.name} with [{args}]"


@frozen
class Found:
    skills: tuple = (Named("pdf"),)
    templates: tuple = (Named("review"),)
    skill_commands: bool = True


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("/review", ("review", "")),
        ("/review a  b", ("review", "a  b")),
        ("/review\nbelow", ("review", "below")),
        ("/skill:pdf now", ("skill:pdf", "now")),
        ("review", None),
        ("/", None),
        ("// comment", None),
        (" /review", None),
    ],
)
def test_a_command_is_a_slash_with_a_name_right_behind(text: str, found):
    """The words behind it go along."""
    assert slash_command(text) == found


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("/review this", "review with [this]"),
        ("/skill:pdf", "pdf with []"),
        ("/skill:none x", "/skill:none x"),
        ("/pdf", "/pdf"),
        ("/usr/bin/env is a path", "/usr/bin/env is a path"),
        ("plain", "plain"),
    ],
)
def test_names_of_skills_and_templates_are_expanded_and_others_stay(text: str, becomes: str):
    """A path at the beginning of a prompt is no command."""
    assert expanded(text, Found()) == becomes


def test_skills_can_be_left_out_of_what_is_typed():
    """The setting that says so leaves their names alone."""
    assert expanded("/skill:pdf", Found(skill_commands=False)) == "/skill:pdf"
    assert [command.name for command in commands_of(Found(skill_commands=False), None)] == ["review"]


def test_what_can_be_typed_is_listed_with_where_it_comes_from():
    """Templates and skills, as the protocol lists them."""
    listed = [command.to_json() for command in commands_of(Found(), None)]
    assert listed == [
        {"name": "review", "description": "d", "source": "prompt", "location": "user", "path": "/p"},
        {"name": "skill:pdf", "description": "d", "source": "skill", "location": "user", "path": "/p"},
    ]
    assert commands_of(None, None) == []
