"""The table of requirements itself."""

from tests.requirements import ids_shown, later, requirements


def test_every_requirement_that_is_due_has_a_test_and_every_named_one_exists():
    """`python -m tests.requirements` would exit with 0."""
    shown = ids_shown()
    every = requirements()
    gaps = [requirement.id for requirement in every if requirement.id not in shown and later(requirement) is None]
    assert gaps == []
    assert sorted(shown.keys() - {requirement.id for requirement in every}) == []


def test_the_sources_are_read_whole():
    """All statements of the checklist and all field reports are in the table, each once."""
    ids = [requirement.id for requirement in requirements()]
    assert len(ids) == len(set(ids))
    assert sum(not name.startswith("BR-") for name in ids) == 249
    assert sum(name.startswith("BR-") for name in ids) > 80
