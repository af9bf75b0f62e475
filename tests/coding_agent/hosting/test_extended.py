"""What extensions bring to a start: models, whichever folder of a host they belong to."""

from coding_agent.extensions.api import Extension
from coding_agent.extensions.runner import Extensions
from coding_agent.hosting.extended import serve_providers
from lemon_ai import Fold, ProviderRegistry, current_catalog, find_model, use_catalog


class Parrot:
    """Answers with its name."""

    api = "parrot"

    async def stream(self, request):
        fold = Fold(request.model)
        for event in (*fold.text(request.model.id), *fold.done("stop")):
            yield event


def bringing(name: str, **config) -> Extensions:
    lemon = Extension("x", "/x.py")
    lemon.register_provider(name, {"models": [{"id": "grey", **config}]}, provider=Parrot())
    return Extensions([lemon])


async def test_models_of_a_folder_that_comes_later_are_found_too(host):
    """Those of the folders before it stay, and so does what was said of a provider before."""
    await serve_providers(bringing("first"))
    await serve_providers(bringing("second"))
    assert find_model("first/grey").api == "extension_first"
    assert ProviderRegistry.registered("extension_second")
    catalog = current_catalog()
    await serve_providers(bringing("first", contextWindow=7))
    assert current_catalog() is catalog


async def test_the_persons_own_file_has_the_last_word(host):
    """An extension does not take a provider over that it names."""
    mine = {"providers": {"acme": {"models": [{"id": "grey", "contextWindow": 5}]}}}
    use_catalog(current_catalog().with_overrides(mine))
    await serve_providers(bringing("acme", contextWindow=7))
    assert find_model("acme/grey").context_window == 5


async def test_a_start_without_extensions_changes_nothing(host):
    """No catalogue of its own is made."""
    catalog = current_catalog()
    await serve_providers(None)
    assert current_catalog() is catalog
