"""Edge. What extensions bring to a start beside what they say in a session: flags, and models to choose from."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from attrs import evolve

from coding_agent.arguments import Arguments
from coding_agent.errors import BadUsage
from coding_agent.flags import unknown_flags
from coding_agent.models.model_choice import ModelChoice, choose_model
from coding_agent.models.user_models import UserModels, user_models
from coding_agent.settings import Settings
from lemon_ai import canonical
from lemon_otp import frozen

if TYPE_CHECKING:
    from coding_agent.extensions.runner import Extensions


@frozen
class Loaded:
    """The extensions of a start.

    Attributes:
        extensions: None where there is none.
        problems: What is wrong with them, a line each.
    """

    extensions: "Extensions | None"
    problems: tuple[str, ...] = ()


def load_extensions(arguments: Arguments, settings: Settings) -> Loaded:
    """Run the registration of every extension there is, and give them their flags.

    Raises:
        BadUsage: A flag was given that nobody knows.
    """
    from coding_agent.resources.extension_files import sources

    problems: list[str] = []
    if next(sources(settings, trusted=settings.trusted, problems=problems), None) is None and not problems:
        if arguments.extra:
            raise BadUsage(unknown_flags(arguments.extra))
        return Loaded(None)
    from coding_agent.extensions.runner import Extensions

    extensions = Extensions.load(settings, trusted=settings.trusted)
    extensions.take_flags(arguments.extra)
    return Loaded(extensions, tuple(extensions.problems))


def known_models(arguments: Arguments, environ: Mapping[str, str], loaded: Loaded) -> UserModels:
    """The catalogue of the start, with what extensions bring.

    Raises:
        BadUsage: The person's own models file cannot be used.
    """
    offered = None if loaded.extensions is None else loaded.extensions.on_top
    return user_models(environ, base_url=arguments.base_url, offered=offered)


def chosen_model(
    arguments: Arguments, settings: Settings, known: UserModels, loaded: Loaded
) -> tuple[ModelChoice, UserModels]:
    """Who answers, and the models with the key that was given for their provider.

    Raises:
        BadUsage: The model asked for is not known; the text says too which extensions could not be loaded.
    """
    try:
        choice = choose_model(settings, known.catalog)
    except BadUsage as error:
        if not loaded.problems:
            raise
        raise BadUsage("; ".join((str(error), *loaded.problems))) from error
    if arguments.api_key:
        given = {canonical(choice.model.provider): arguments.api_key}
        known = evolve(known, credentials=evolve(known.credentials, given=given))
    return choice, known


async def serve_providers(extensions: "Extensions | None") -> None:
    """Let the providers of extensions answer from now on, and their models be found by name.

    What the catalogue of this runtime says of a provider already stays: it may be the person's own file.
    """
    if extensions is None:
        return
    from lemon_ai import ProviderRegistry, current_catalog, use_catalog

    before = catalog = current_catalog()
    for extension, offered in extensions.providers:
        if canonical(offered.name) not in catalog.overrides:
            catalog = offered.on_top(catalog, extension.path)
        if offered.provider is not None:
            await ProviderRegistry.register(offered.api, offered.provider)
    if catalog is not before:
        use_catalog(catalog)
