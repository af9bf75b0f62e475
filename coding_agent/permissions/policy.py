"""Pure. May this be done? The rules and the mode, asked about every part of a tool call.

Rules come first: one `deny` is enough, then one `ask`, and only if every part is allowed, by a rule or by the mode, the
call is. What cannot be understood is asked about as soon as anything depends on it.
"""

from collections.abc import Iterable, Sequence
from typing import Final, Literal, TypeAlias, assert_never

from attrs import evolve, frozen

from coding_agent.permissions.parts import Run, Unclear
from coding_agent.permissions.rules import Kind, Rule, host_of, match_host, match_path, match_run, match_text, rule_for

Mode: TypeAlias = Literal["ask", "edit", "full", "plan"]
MODES: Final[Sequence[Mode]] = ("ask", "edit", "full", "plan")
Verdict: TypeAlias = Kind
BROWSER: Final = "browser"


@frozen
class FileAccess:
    """A file is read or written.

    Attributes:
        tool: Which tool does it; a redirection does it as `write` or `read`.
        given: As asked for.
        shown: Relative to the workspace when inside, else absolute, links followed.
        real: Absolute, links followed.
        inside: Within the workspace.
        protected: The folder in it whose files make other programs run code, if it is in one.
    """

    tool: str
    given: str
    shown: str
    real: str
    inside: bool
    writes: bool
    protected: str | None = None


@frozen
class Fetch:
    """Something is fetched from an address."""

    tool: str
    url: str


@frozen
class Use:
    """A tool is used in a way that is not looked into.

    Attributes:
        subject: The argument that says most.
        harmless: It reads, or keeps notes of its own.
    """

    tool: str
    subject: str
    harmless: bool = False


@frozen
class InShell:
    """A part of a shell command."""

    tool: str
    part: Run | Unclear


Action: TypeAlias = FileAccess | Fetch | Use | InShell
"""Closed."""


@frozen
class Judgement:
    """What a policy says about a tool call.

    Attributes:
        reason: For a person and the model: which part, and why.
        needs: Rules that would allow it from now on; empty where none can.
        rule: The rule that decided, as written; None when the mode did.
    """

    verdict: Verdict
    reason: str = ""
    needs: tuple[Rule, ...] = ()
    rule: str | None = None


ALLOWED: Final = Judgement("allow")


@frozen
class Policy:
    """A mode and rules."""

    mode: Mode = "ask"
    rules: tuple[Rule, ...] = ()

    def with_rules(self, rules: Iterable[Rule]) -> "Policy":
        """The policy with more rules."""
        return evolve(self, rules=(*self.rules, *(rule for rule in rules if rule not in self.rules)))

    def restricts(self, tool: str) -> bool:
        """Is there a rule that asks or denies, about this tool?"""
        return any(rule.kind != "allow" and rule.names(tool) for rule in self.rules)

    def allows_all(self, tool: str) -> bool:
        """May the tool do whatever it likes, so that nothing needs to be looked into?"""
        return self.mode == "full" and not self.restricts(tool)

    def judge(self, actions: Sequence[Action]) -> Judgement:
        """What is to be done about a call that comes down to these actions."""
        found = [self._judge(action) for action in actions]
        for verdict in ("deny", "ask"):
            decided = [each for each in found if each.verdict == verdict]
            if decided:
                needs = [need for each in decided for need in each.needs]
                complete = verdict == "ask" and all(each.needs for each in decided)
                return evolve(decided[0], needs=tuple(dict.fromkeys(needs)) if complete else ())
        return next((each for each in found if each.rule), ALLOWED)

    def _judge(self, action: Action) -> Judgement:
        allowed: Rule | None = None
        asked: tuple[Rule, bool] | None = None
        for rule in self.rules:
            if not rule.names(action.tool):
                continue
            match = _match(rule, action)
            if match == "no":
                continue
            if rule.kind == "deny" and match == "yes":
                return Judgement("deny", f"{_shown(action)}: the rule {rule} forbids it", rule=str(rule))
            if rule.kind == "allow":
                allowed = allowed or rule
            else:
                asked = asked or (rule, match == "yes")
        if self.mode == "plan" and not _only_looks(action):
            return Judgement("deny", f"{_shown(action)}: mode plan only reads and searches")
        if asked is not None:
            rule, sure = asked
            why = f"the rule {rule} asks first" if sure else f"the rule {rule} may be about it"
            return Judgement("ask", f"{_shown(action)}: {why}", rule=str(rule))
        if allowed is not None:
            return Judgement("allow", rule=str(allowed))
        return self._by_mode(action)

    def _asks(self, about: str) -> str:
        return f"mode {self.mode} asks about {about}"

    def _by_mode(self, action: Action) -> Judgement:
        match action:
            case FileAccess():
                return self._file_by_mode(action)
            case InShell(part=Run(plain_wrapper=True)):
                return ALLOWED
            case InShell(tool, part):
                if self.mode == "full" and not (isinstance(part, Unclear) and self.restricts(tool)):
                    return ALLOWED
                need = rule_for(part) if isinstance(part, Run) else None
                why = self._asks("commands") if isinstance(part, Run) else "a part of the command that cannot be judged"
                return Judgement("ask", f"{_shown(action)}: {why}", () if need is None else (need,))
            case Fetch(tool):
                if self.mode == "full":
                    return ALLOWED
                return Judgement("ask", f"{_shown(action)}: {self._asks('the network')}", _for_host(action))
            case Use(tool, harmless=harmless):
                if harmless or self.mode == "full":
                    return ALLOWED
                return Judgement("ask", f"{_shown(action)}: {self._asks(f'the tool {tool}')}", (_for_use(action),))
            case _:
                assert_never(action)

    def _file_by_mode(self, action: FileAccess) -> Judgement:
        deed = "writing" if action.writes else "reading"
        if not action.inside:
            return Judgement("ask", f"{deed} {action.real}, outside the workspace")
        if not action.writes:
            return ALLOWED
        if action.protected:
            return Judgement("ask", f"writing {action.shown} in the protected folder {action.protected}")
        if self.mode in ("edit", "full"):
            return ALLOWED
        return Judgement("ask", f"writing {action.shown}", _for_file(action.shown))


def _match(rule: Rule, action: Action) -> Literal["yes", "maybe", "no"]:
    match action:
        case InShell(_, part):
            if isinstance(part, Run):
                return match_run(rule, part)
            if rule.pattern is None:
                return "yes"
            return "no" if rule.kind == "allow" else "maybe"
        case FileAccess(shown=shown, real=real, given=given):
            hit = match_path(rule, shown, real) or (rule.kind != "allow" and match_path(rule, given, given))
        case Fetch(_, url):
            hit = match_host(rule, url)
        case Use(_, subject):
            hit = match_text(rule, subject)
        case _:
            assert_never(action)
    return "yes" if hit else "no"


def _only_looks(action: Action) -> bool:
    match action:
        case FileAccess(writes=writes):
            return not writes
        case Use(harmless=harmless):
            return harmless
        case Fetch(tool):
            return tool == "web_fetch"
        case InShell():
            return False
        case _:
            assert_never(action)


def _shown(action: Action) -> str:
    match action:
        case InShell(_, part):
            text = part.shown
        case FileAccess(tool, _, shown):
            text = f"{tool} {shown}"
        case Fetch(tool, url):
            text = f"{tool} {url}"
        case Use(tool, subject):
            text = f"{tool} {subject}".strip()
        case _:
            assert_never(action)
    line = " ".join(text.split())
    return line if len(line) <= 200 else line[:199] + "…"


def _for_host(action: Fetch) -> tuple[Rule, ...]:
    host = host_of(action.url)
    return () if host is None else (Rule("allow", action.tool, host),)


def _for_use(action: Use) -> Rule:
    """A rule for the tool; of one that has several actions, for this one: to click is not to go anywhere."""
    if action.tool != BROWSER:
        return Rule("allow", action.tool)
    return Rule("allow", action.tool, f"{action.subject.partition(' ')[0]} *")


def _for_file(shown: str) -> tuple[Rule, ...]:
    """A rule for exactly this file; a name that would mean more in a rule gets none."""
    if any(char in "*?[]()" for char in shown) or shown != shown.strip():
        return ()
    return (Rule("allow", "write", shown if "/" in shown else f"./{shown}"),)
