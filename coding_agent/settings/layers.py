"""Pure. What each place says, laid over one another; every value keeps where it came from."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from attrs import field, frozen

from coding_agent.errors import BadUsage
from coding_agent.settings.schema import BY_KEY, ELSEWHERE, FIELDS, GROUPS, BadValue, Field, tightens, valid
from lemon_ai import redact

LayerName: TypeAlias = Literal["default", "user", "project", "environment", "flag"]

JOINED: Final = frozenset({"permissions.allow", "permissions.ask", "permissions.deny"})
"""Rules of every place hold together; every other list is replaced by the one above it."""


@frozen
class Origin:
    """Where a value came from.

    Attributes:
        layer: Which kind of place.
        place: The file, variable or flag; empty for a default.
    """

    layer: LayerName
    place: str = ""

    def __str__(self) -> str:
        return f"{self.layer} ({self.place})" if self.place else self.layer


@frozen
class Layer:
    """What one place says.

    Attributes:
        origin: Which place.
        values: By a setting's name.
        unknown: Names that are no setting; they are kept where they stand.
        problems: What cannot be used, a line each.
        file: The file, if it is one.
    """

    origin: Origin
    values: Mapping[str, Any] = field(factory=dict)
    unknown: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    file: Path | None = None


@frozen
class Setting:
    """A value and where it came from: more than one place for rules, which are joined."""

    value: Any
    origins: tuple[Origin, ...]

    @property
    def shown(self) -> Any:
        """The value as it can be shown: a text without what in it is a secret, such as the password of an address."""
        return redact(self.value) if isinstance(self.value, str) else self.value


@frozen
class Merged:
    """What all places come to.

    Attributes:
        settings: Every setting by its name.
        waiting: By file, the settings of a project that only count when it is trusted.
        problems: Of all places.
        unknown: Names that are no setting, with their place.
        mode_cap: The strictest permission mode an untrusted project asks for; the person's default may be less strict.
    """

    settings: Mapping[str, Setting]
    waiting: Mapping[Path, tuple[str, ...]]
    problems: tuple[str, ...] = ()
    unknown: tuple[tuple[str, Origin], ...] = ()
    mode_cap: str | None = None

    def value(self, key: str) -> Any:
        """The value of a setting."""
        return self.settings[key].value

    def asked(self, key: str) -> bool:
        """Did somebody ask for it for this start, by a flag or a variable?"""
        return any(origin.layer in ("flag", "environment") for origin in self.settings[key].origins)


def layer_of(document: Mapping[str, Any], origin: Origin, file: Path, *, strict: bool) -> Layer:
    """What a file says.

    Args:
        document: Its JSON.
        origin: Where it lies.
        file: The file.
        strict: A value that guards something and cannot be understood ends the program.

    Raises:
        BadUsage: There is such a value.
    """
    values: dict[str, Any] = {}
    unknown: list[str] = []
    problems: list[str] = []
    for key, value in _flat(document, problems, file):
        if key not in BY_KEY:
            if key not in ELSEWHERE and key.partition(".")[0] not in ELSEWHERE:
                unknown.append(key)
            continue
        if value is None:
            continue
        try:
            values[key] = valid(BY_KEY[key], value)
        except BadValue as error:
            if strict and BY_KEY[key].guards:
                raise BadUsage(f"{file}: {error}") from error
            problems.append(f"{file}: {error}; it was passed over")
    problems += [f"{file}: there is no setting {key!r}; it was passed over" for key in unknown]
    return Layer(origin, values, tuple(unknown), tuple(problems), file)


def _flat(document: Mapping[str, Any], problems: list[str], file: Path) -> Iterator[tuple[str, Any]]:
    for name, value in document.items():
        if name not in GROUPS:
            yield name, value
        elif isinstance(value, dict):
            for inner, item in value.items():
                yield f"{name}.{inner}", item
        elif value is not None:
            what = f"{file}: {name} must be an object"
            if name in _GUARDING:
                raise BadUsage(what)
            problems.append(f"{what}; it was passed over")


_GUARDING: Final = frozenset(each.key.partition(".")[0] for each in FIELDS if each.guards and "." in each.key)


def merge(layers: Sequence[Layer], *, trusted: bool) -> Merged:
    """Lay the places over one another, the first lowest.

    Args:
        layers: From the lowest.
        trusted: A project may set what it likes; else it can only make rules stricter.
    """
    settings = {each.key: Setting(each.default, (Origin("default"),)) for each in FIELDS}
    waiting: dict[Path, list[str]] = {}
    cap: str | None = None
    for layer in layers:
        for key, value in layer.values.items():
            rule, below = BY_KEY[key], settings[key]
            loosens = layer.origin.layer == "project" and not tightens(rule, value, below.value)
            if layer.origin.layer == "project" and layer.file is not None and _needs_trust(rule, value, below):
                waiting.setdefault(layer.file, []).append(key)
            if loosens and not trusted:
                continue
            if key == "permissions.mode" and layer.origin.layer == "project" and not trusted:
                cap = value if cap is None else _stricter(rule, value, cap)
                continue
            settings[key] = _over(key, below, value, layer.origin)
    return Merged(
        settings,
        {file: tuple(keys) for file, keys in waiting.items()},
        tuple(problem for layer in layers for problem in layer.problems),
        tuple((name, layer.origin) for layer in layers for name in layer.unknown),
        cap,
    )


def _needs_trust(rule: Field, value: Any, below: Setting) -> bool:
    """Would it loosen something? With a person there the mode is `ask` when they have named none."""
    if rule.key == "permissions.mode" and below.value is None:
        return not tightens(rule, value, "ask")
    return not tightens(rule, value, below.value) and value != below.value


def _stricter(rule: Field, one: str, other: str) -> str:
    return min(one, other, key=rule.order.index)


def _over(key: str, below: Setting, value: Any, origin: Origin) -> Setting:
    if key not in JOINED or below.origins == (Origin("default"),):
        return Setting(value, (origin,))
    return Setting(tuple(dict.fromkeys((*below.value, *value))), (*below.origins, origin))


def nested(settings: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Settings as the JSON object of a file."""
    document: dict[str, Any] = {}
    for key, value in settings:
        group, dot, name = key.partition(".")
        if dot:
            document.setdefault(group, {})[name] = value
        else:
            document[key] = value
    return document
