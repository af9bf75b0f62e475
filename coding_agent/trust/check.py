"""Edge. Is this project trusted, as it is now?

Trust is for files as they were when the person looked: a change to one of them, a new one or one that is gone takes it
back, and says which. A no holds until they say otherwise, whatever changes, so that nobody is asked again and again.
"""

import os
from pathlib import Path
from typing import Final, Literal, TypeAlias

from attrs import evolve, field, frozen

from coding_agent.errors import BadUsage
from coding_agent.trust.found import Found, Needs, digest_of, look
from coding_agent.trust.store import Decision, TrustStore
from lemon_otp import wall_ms

State: TypeAlias = Literal["nothing", "unknown", "changed", "declined", "trusted", "once"]
"""`nothing` waits; nobody was `asked`; something has `changed` since a yes; a no; a yes; a yes for this start only."""

LINES_SHOWN: Final = 40


@frozen
class Trust:
    """How things stand between the person and a project.

    Attributes:
        project: The working folder, links followed.
        state: See `State`.
        found: What waits for trust.
        changed: Files that are not as they were when the person said yes.
        store: Where decisions are kept.
        problem: Why a decision could not be read; then none counts.
    """

    project: Path
    state: State
    found: Found = field(repr=False)
    changed: tuple[str, ...] = ()
    store: TrustStore | None = None
    problem: str | None = None

    @property
    def trusted(self) -> bool:
        """Do the project's own files count?"""
        return self.state in ("trusted", "once")

    @property
    def pending(self) -> tuple[str, ...]:
        """What waits, a line each; nothing when it is trusted."""
        return () if self.trusted else self.found.lines

    def question(self) -> str | None:
        """What to ask a person who is there; None when there is nothing to ask, or they have answered."""
        if self.state not in ("unknown", "changed") or self.problem:
            return None
        shown = self.found.lines[:LINES_SHOWN]
        more = len(self.found.lines) - len(shown)
        parts = [f"Do you trust the files of {self.project}?"]
        if self.changed:
            parts.append(f"You did before; since then {_listed(self.changed)} changed.")
        parts += [f"- {line}" for line in shown]
        if more:
            parts.append(f"- and {more} more")
        parts.append("Until you do they are not read, and it can only make rules stricter.")
        return "\n".join(parts)

    def notice(self) -> str | None:
        """One line for a start where nobody can be asked; None when nothing waits or the person has said no."""
        if self.question() is None:
            return self.problem
        why = f"; {_listed(self.changed)} changed since you trusted it" if self.changed else ""
        return (
            f"this project is not trusted, so {len(self.found.lines)} of its files and folders were not read{why}; see "
            "`trust show`, then `trust yes`, or --trust for one start"
        )

    def once(self) -> "Trust":
        """The same, trusted for this start."""
        return evolve(self, state="once", problem=None)


def check_trust(project: Path, home: Path, state_dir: Path, needs: Needs | None = None) -> Trust:
    """Look at a project and at what the person said of it. Changes nothing, asks nobody."""
    root = Path(os.path.realpath(project))
    found = look(root, home, needs or Needs())
    store = TrustStore(state_dir / "trust.json")
    if not found.files and not found.too_much:
        return Trust(root, "nothing", found, store=store)
    if found.too_much:
        return Trust(root, "unknown", found, store=store, problem=f"{root} has too many such files to be trusted")
    if not store.counts_for(root):
        why = f"{store.path} lies in this project, so what it says does not count"
        return Trust(root, "unknown", found, store=store, problem=why)
    try:
        decision = store.read().get(str(root))
    except BadUsage as error:
        return Trust(root, "unknown", found, store=store, problem=str(error))
    if decision is None:
        return Trust(root, "unknown", found, store=store)
    if not decision.trusted:
        return Trust(root, "declined", found, store=store)
    changed = differing(decision, found, root)
    return Trust(root, "changed" if changed else "trusted", found, changed, store)


def differing(decision: Decision, found: Found, project: Path) -> tuple[str, ...]:
    """The files that are new, gone or other than they were.

    One that waits no longer, because of what the person's own settings say now, and is as it was, is none.
    """
    now = {**{name: digest_of(project, name) for name in decision.files if name not in found.files}, **found.files}
    return tuple(name for name in sorted(now) if decision.files.get(name) != now[name])


def decide(trust: Trust, trusted: bool) -> Trust:
    """Keep the person's answer to the question as it was shown to them; how things stand now.

    Raises:
        BadUsage: It cannot be kept; the text says why. Nothing was changed.
    """
    if trust.store is None or not trust.store.counts_for(trust.project):
        raise BadUsage(trust.problem or "there is nowhere to keep the answer")
    if trust.found.too_much and trusted:
        raise BadUsage(trust.problem or "there are too many files")
    trust.store.write(trust.project, Decision(trusted, trust.found.files if trusted else {}, wall_ms()))
    return evolve(trust, state="trusted" if trusted else "declined", changed=(), problem=None)


def forget(trust: Trust) -> Trust:
    """Take back whatever was said, so that it is asked again. Raises as `decide`."""
    if trust.store is not None:
        trust.store.write(trust.project, None)
    return evolve(trust, state="unknown" if trust.found.files else "nothing", changed=())


def _listed(names: tuple[str, ...]) -> str:
    shown = ", ".join(names[:5])
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"
