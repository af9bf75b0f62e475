"""Pure. Which providers may answer a call, in which order, and a report on that without secrets."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

from attrs import evolve, field

from lemon_otp import frozen

Role: TypeAlias = Literal["primary", "fallback"]
Strategy: TypeAlias = Literal["priority", "round_robin"]
Demotion: TypeAlias = Literal["circuit_open", "resting"]
Decision: TypeAlias = Literal["selected_primary", "selected_fallback", "no_ready_provider", "routing_disabled"]


@frozen(kw_only=True)
class Profile:
    """What a user wants of routing.

    Attributes:
        fallback_providers: Tried after the primary, in this order.
        distribution: Providers with weights; the heavier are tried first, equals by name.
        pools: Providers that share a name, each with the order in which they are taken.
    """

    fallback_providers: tuple[str, ...] = ()
    distribution: Mapping[str, float] = field(factory=dict)
    pools: Mapping[str, tuple[str, ...]] = field(factory=dict)
    strategy: Strategy = "priority"


@frozen(kw_only=True)
class Routing:
    """The settings of routing."""

    enabled: bool = True
    require_credentials: bool = True
    fallback_providers: tuple[str, ...] = ()


@frozen(kw_only=True)
class Facts:
    """What is known of the providers at this moment.

    Attributes:
        known: Providers the catalogue has.
        configured: Providers that settings say anything of.
        credential_ready: Providers with a credential that can be resolved, or that need none.
        circuit_open: Providers whose breaker is open.
        resting: Providers all of whose credentials rest.
    """

    known: frozenset[str] = frozenset()
    configured: frozenset[str] = frozenset()
    credential_ready: frozenset[str] = frozenset()
    circuit_open: frozenset[str] = frozenset()
    resting: frozenset[str] = frozenset()


@frozen
class Candidate:
    """A provider that may answer."""

    provider: str
    role: Role
    pool: str | None = None
    strategy: Strategy = "priority"
    known: bool = False
    configured: bool = False
    credential_ready: bool = False
    selectable: bool = False
    demotions: tuple[Demotion, ...] = ()


def plan(
    primary: str,
    facts: Facts,
    *,
    explicit_fallbacks: Sequence[str] | None = None,
    profile: Profile | None = None,
    routing: Routing | None = None,
) -> tuple[Candidate, ...]:
    """Every provider that may answer, best first, each once.

    The primary, then the explicit fallbacks or, without any, those of the profile, its distribution, its pools and the
    global ones. Those whose circuit is open or whose credentials all rest go to the end; none is dropped.
    """
    profile, routing = profile or Profile(), routing or Routing()
    names: list[tuple[str, str | None]] = [(primary, None)]
    if explicit_fallbacks is not None:
        names += [(name, None) for name in explicit_fallbacks]
    elif routing.enabled:
        names += [(name, None) for name in profile.fallback_providers]
        names += [
            (name, None) for name, _ in sorted(profile.distribution.items(), key=lambda item: (-item[1], item[0]))
        ]
        names += [(name, pool) for pool, members in profile.pools.items() for name in members]
        names += [(name, None) for name in routing.fallback_providers]
    unique: dict[str, str | None] = {}
    for name, pool in names:
        unique.setdefault(name, pool)
    found = [
        _candidate(name, pool, "primary" if name == primary else "fallback", facts, profile, routing)
        for name, pool in unique.items()
    ]
    return tuple(sorted(found, key=lambda candidate: bool(candidate.demotions)))


def _candidate(name: str, pool: str | None, role: Role, facts: Facts, profile: Profile, routing: Routing) -> Candidate:
    demotions: list[Demotion] = []
    if name in facts.circuit_open:
        demotions.append("circuit_open")
    if name in facts.resting:
        demotions.append("resting")
    known, ready = name in facts.known, name in facts.credential_ready
    return Candidate(
        provider=name,
        role=role,
        pool=pool,
        strategy=profile.strategy,
        known=known,
        configured=name in facts.configured,
        credential_ready=ready,
        selectable=known and (ready or not routing.require_credentials),
        demotions=tuple(demotions),
    )


def selected(candidates: Iterable[Candidate]) -> Candidate | None:
    """The first that can be used."""
    return next((candidate for candidate in candidates if candidate.selectable), None)


def decision(candidates: Sequence[Candidate], routing: Routing | None = None) -> Decision:
    """What a plan comes to."""
    if routing is not None and not routing.enabled:
        return "routing_disabled"
    chosen = selected(candidates)
    if chosen is None:
        return "no_ready_provider"
    return "selected_primary" if chosen.role == "primary" else "selected_fallback"


def preview(candidates: Sequence[Candidate], routing: Routing | None = None) -> dict[str, Any]:
    """A plan for a person to read: names and counts, and nothing that could be a secret."""
    chosen = None if decision(candidates, routing) == "routing_disabled" else selected(candidates)
    return {
        "decision": decision(candidates, routing),
        "selected": None if chosen is None else chosen.provider,
        "candidates": len(candidates),
        "selectable": sum(candidate.selectable for candidate in candidates),
        "credential_ready": sum(candidate.credential_ready for candidate in candidates),
        "demoted": sum(bool(candidate.demotions) for candidate in candidates),
        "order": [candidate.provider for candidate in candidates],
    }


def provider_status(names: Iterable[str], facts: Facts) -> dict[str, dict[str, bool]]:
    """How ready each provider is, in booleans only."""
    return {
        name: {
            "known": name in facts.known,
            "configured": name in facts.configured,
            "credential_ready": name in facts.credential_ready,
            "circuit_open": name in facts.circuit_open,
            "resting": name in facts.resting,
        }
        for name in names
    }


WEEK_S: Final = 7 * 86_400.0


@frozen
class Rotation:
    """Whose turn it is in a pool: by priority, or the next member for each new session, kept as long as it is used."""

    next_place: Mapping[str, int] = field(factory=dict)
    claims: Mapping[tuple[str, str], tuple[int, float]] = field(factory=dict)
    """Place and last use, by pool and session."""

    def order(
        self, pool: str, members: Sequence[str], strategy: Strategy, session: str | None, now_s: float
    ) -> tuple["Rotation", tuple[str, ...]]:
        """The members in the order to try them, and the rotation afterwards. Without a session each call moves on."""
        if strategy == "priority" or not members:
            return self, tuple(members)
        claim = None if session is None else self.claims.get((pool, session))
        rotation = self
        if claim is None:
            place = self.next_place.get(pool, 0)
            rotation = evolve(self, next_place={**self.next_place, pool: place + 1})
        else:
            place = claim[0]
        if session is not None:
            rotation = evolve(rotation, claims={**rotation.claims, (pool, session): (place, now_s)})
        start = place % len(members)
        return rotation, (*members[start:], *members[:start])

    def swept(self, now_s: float) -> "Rotation":
        """Without the claims nobody has used for a week."""
        return evolve(self, claims={key: claim for key, claim in self.claims.items() if claim[1] + WEEK_S > now_s})


@frozen
class Pins:
    """Sessions that stay with the provider and credential that answered them after a fallback."""

    pinned: Mapping[str, tuple[str, str, float]] = field(factory=dict)

    def pin(self, session: str | None, provider: str, ref: str, now_s: float) -> "Pins":
        """Stay with these; a session without a name is not pinned."""
        if not session or session == "global":
            return self
        return evolve(self, pinned={**self.pinned, session: (provider, ref, now_s)})

    def of(self, session: str | None, now_s: float) -> tuple[str, str] | None:
        """What a session stays with, for a week."""
        found = self.pinned.get(session or "")
        return None if found is None or found[2] + WEEK_S <= now_s else found[:2]

    def swept(self, now_s: float) -> "Pins":
        """Without those that hold no more."""
        return evolve(self, pinned={name: pin for name, pin in self.pinned.items() if pin[2] + WEEK_S > now_s})
