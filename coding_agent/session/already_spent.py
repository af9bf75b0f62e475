"""Edge. What a session has used up before this program, as its own file and those of its subagents tell it.

An account lasts as long as its program, but a limit is one for the session: who goes on with it goes on with what is
left. Entries that a fork took over were made, and paid for, by the session it came out of.
"""

from collections.abc import Iterator

from coding_agent.errors import SessionError
from coding_agent.session.budget import NO_LIMITS, Account, Spent, spent_by
from coding_agent.storage.session_manager import SessionManager
from coding_agent.storage.stamps import parse_iso
from lemon_ai import Usage, usage_from_wire


def resume_account(account: Account | None, store: SessionManager) -> None:
    """Let an account that nothing was charged to yet begin with what its session has used up.

    Nothing is read where the account has no limit: nobody asks then.
    """
    if account is not None and account.spent == Spent() and account.budget != NO_LIMITS and len(store.tree):
        account.spent = already_spent(store)


def already_spent(store: SessionManager) -> Spent:
    """The sum of the usage that is stored. A file of a subagent's that cannot be read counts for nothing."""
    from coding_agent.storage.opening import open_for_reading

    total = spent_in(store)
    for path in sorted((store.path.with_suffix("") / "subagents").glob("**/*.jsonl")):
        try:
            with open_for_reading(path) as child:
                total += spent_in(child)
        except (SessionError, OSError):
            continue
    return total


def spent_in(store: SessionManager) -> Spent:
    """What the calls of one file have used up, those it was forked with apart."""
    began_ms = parse_iso(store.header.timestamp) if store.header.data.get("parentSession") else None
    total = Spent()
    for usage, at_ms in _usages(store):
        if began_ms is None or at_ms is None or at_ms > began_ms:
            total += spent_by(usage)
    return total


def _usages(store: SessionManager) -> Iterator[tuple[Usage, int | None]]:
    """The usage of every answer and summary, and when its entry was made."""
    for position, kind in enumerate(store.tree.kinds):
        if kind not in ("message/assistant", "compaction", "branch_summary"):
            continue
        entry = store.log.entry_data(position)
        holder = entry.get("message") if kind == "message/assistant" else entry
        usage = holder.get("usage") if isinstance(holder, dict) else None
        if isinstance(usage, dict):
            yield usage_from_wire(usage), parse_iso(entry.get("timestamp"))
