"""Edge. Commands after a slash that are about how the model works: who answers, with what, how far, for how much."""

from typing import TYPE_CHECKING, Any, Final

from coding_agent.errors import CommandFailed
from coding_agent.terminal.blocks import Notice, Report
from coding_agent.terminal.channel import Message
from coding_agent.terminal.plain_lines import thousands
from coding_agent.terminal.questions import Option, Question
from coding_agent.terminal.slash import budget_of

if TYPE_CHECKING:
    from coding_agent.terminal.conversation import Conversation

MODES: Final = (
    ("ask", "read and search; ask before anything else"),
    ("edit", "also change files in the working folder"),
    ("full", "also run commands"),
    ("plan", "read and search, and nothing else even when asked"),
)
LEVELS: Final = ("off", "minimal", "low", "medium", "high", "xhigh")


async def choose_model(talk: "Conversation", words: str) -> None:
    """Another model, by its name or from a list."""
    models: list[Message] = list((await talk.told("get_available_models")).get("models") or ())
    named = [model for model in models if words and words.casefold() in model_name(model).casefold()]
    exact = [model for model in named if words in (model_name(model), model.get("id"))]
    model = exact[0] if len(exact) == 1 else named[0] if len(named) == 1 else None
    if model is None:
        options = tuple(Option(model_name(each), each, note=model_note(each)) for each in models)
        at = next((n for n, option in enumerate(options) if option.label == talk.view.model), 0)
        question = Question("pick", "Who answers?", options, at=at)
        if words:
            question.narrow(words)
        model = await talk.choose(question)
    if model is not None:
        await talk.told("set_model", provider=model.get("provider"), modelId=model.get("id"))
        talk.front.show([Notice(f"{model_name(model)} answers from now on")])


def model_name(model: Message) -> str:
    """`provider/id`."""
    return f"{model.get('provider')}/{model.get('id')}"


def model_note(model: Message) -> str:
    """What helps to choose."""
    window = model.get("contextWindow")
    cost = model.get("cost") or {}
    price = f"${cost['input']:g}/${cost['output']:g}" if cost.get("input") and cost.get("output") else ""
    return " ".join(filter(None, (thousands(int(window)) if window else "", price)))


async def choose_thinking(talk: "Conversation", words: str) -> None:
    """Another thinking level."""
    try:
        levels = [str(each) for each in (await talk.told("get_available_thinking_levels")).get("levels") or ()]
    except CommandFailed:
        levels = list(LEVELS)
    level = words or await talk.choose(
        Question(
            "pick",
            "How hard to think?",
            tuple(Option(each, each) for each in levels),
            at=levels.index(talk.view.thinking_level) if talk.view.thinking_level in levels else 0,
        )
    )
    if level:
        await talk.told("set_thinking_level", level=level)
        talk.view.thinking_level = level


async def next_thinking(talk: "Conversation") -> None:
    """The next level."""
    found = await talk.told("cycle_thinking_level")
    level = found.get("level")
    talk.front.show([Notice(f"thinking: {level}" if level else "this model thinks in one way only")])
    talk.view.thinking_level = str(level or talk.view.thinking_level)


async def next_model(talk: "Conversation") -> None:
    """The next model."""
    found = (await talk.told("cycle_model")).get("model")
    talk.front.show([Notice(f"{model_name(found)} answers from now on" if found else "there is no other model")])


async def choose_tools(talk: "Conversation", _words: str) -> None:
    """Tools on and off, one by one, until there is no answer."""
    at = 0
    while True:
        tools: list[Message] = list((await talk.told("get_tools")).get("tools") or ())
        options = tuple(
            Option(f"{'☒' if each.get('active') else '☐'} {each.get('name')}", each, note=first_line(each))
            for each in tools
        )
        question = Question("pick", "Which tools has the model? Enter switches one, Esc ends", options, at=at)
        tool = await talk.choose(question)
        if tool is None:
            return
        at = next((n for n, each in enumerate(tools) if each.get("name") == tool.get("name")), 0)
        names = [str(each.get("name")) for each in tools if bool(each.get("active")) != (each is tool)]
        await talk.told("set_active_tools", names=names)


def first_line(tool: Message) -> str:
    """The first sentence of a description."""
    return str(tool.get("description") or "").strip().split("\n")[0].split(". ")[0]


async def choose_permissions(talk: "Conversation", words: str) -> None:
    """What holds, and another mode."""
    if not words:
        holds = await talk.told("get_permissions")
        rows = [("mode", str(holds.get("mode")))]
        rows += [("rule", str(rule)) for rule in holds.get("rules") or ()]
        rows += [("remembered", str(rule)) for rule in holds.get("remembered") or ()]
        talk.front.show([Report("Permissions", tuple(rows))])
        names = [name for name, _ in MODES]
        at = names.index(str(holds.get("mode"))) if holds.get("mode") in names else 0
        options = tuple(Option(name, name, note=note) for name, note in MODES)
        words = await talk.choose(Question("pick", "What may be done without asking?", options, at=at)) or ""
    if words:
        await talk.told("set_permission_mode", mode=words)
        talk.view.permission_mode = words
        talk.front.show([Notice(f"permission mode: {words}")])


async def set_budget(talk: "Conversation", words: str) -> None:
    """A budget, or what is left of it."""
    if words:
        try:
            tokens, cost = budget_of(words)
        except ValueError:
            talk.front.show([Notice("a budget is tokens, a cost, or both: /budget 200k $1.50", "error")])
            return
        await talk.told("set_budget", maxTokens=tokens, maxCost=cost)
    holds = await talk.told("get_budget")
    talk.front.show([Report("Budget", (
        ("tokens", of_most(holds.get("usedTokens") or 0, holds.get("maxTokens"), "{:,}")),
        ("cost", of_most(holds.get("usedCost") or 0, holds.get("maxCost"), "${:.3f}")),
    ))])  # fmt: skip


def of_most(used: Any, most: Any, form: str) -> str:
    """`12 of 40`."""
    return f"{form.format(used)} of {form.format(most) if most is not None else 'any'}"


async def show_cost(talk: "Conversation", _words: str) -> None:
    """What was used."""
    stats = await talk.told("get_session_stats")
    tokens, context = stats.get("tokens") or {}, stats.get("contextUsage") or {}
    rows = [
        ("cost", f"${float(stats.get('cost') or 0):.4f}"),
        ("input", f"{tokens.get('input', 0):,} tokens"),
        ("output", f"{tokens.get('output', 0):,} tokens"),
        ("cache", f"{tokens.get('cacheRead', 0):,} read, {tokens.get('cacheWrite', 0):,} written"),
        ("messages", f"{stats.get('totalMessages', 0)}, {stats.get('toolCalls', 0)} tool calls"),
    ]
    if context.get("tokens") is not None:
        rows.append(("context", f"{context['tokens']:,} of {context.get('contextWindow') or 0:,} tokens"))
    talk.front.show([Report("Used so far", tuple(rows))])


async def show_mcp(talk: "Conversation", words: str) -> None:
    """The MCP servers; `reconnect [NAME]` connects them anew."""
    what, _, name = words.partition(" ")
    if what == "reconnect":
        told = await talk.told("reconnect_mcp", name=name.strip() or None)
        names = ", ".join(map(str, told.get("servers") or ()))
        talk.front.show([Notice(f"connecting anew: {names}" if names else "there is no MCP server to connect")])
        return
    if what:
        talk.front.show([Notice("give /mcp alone, or /mcp reconnect [NAME]", "error")])
        return
    servers: list[Message] = list((await talk.told("get_mcp")).get("servers") or ())
    rows = tuple((str(each.get("name")), server_text(each)) for each in servers)
    talk.front.show([Report("MCP servers", rows) if rows else Notice("no MCP server is set up; see .mcp.json")])


def server_text(server: Message) -> str:
    """How a server is, and how much it has."""
    counts = {kind: len(server.get(kind) or ()) for kind in ("tools", "resources", "templates", "prompts")}
    has = [f"{count} {kind if count > 1 else kind.removesuffix('s')}" for kind, count in counts.items() if count]
    return ", ".join(filter(None, [str(server.get("state")), *has, str(server.get("error") or "")]))


async def choose_trust(talk: "Conversation", words: str) -> None:
    """Whether this project's own settings and programs are used."""
    holds = await talk.told("get_trust")
    pending = [str(each) for each in holds.get("pending") or ()]
    known = {"yes": True, "no": False}.get(words.casefold())
    if known is None:
        rows = (("now", "trusted" if holds.get("trusted") else "not trusted"), *(("waits", each) for each in pending))
        talk.front.show([Report("Trust in this project", rows)])
        options = (Option("Trust it", True, key="y"), Option("Do not trust it", False, key="n"))
        known = await talk.choose(Question("confirm", "Use this project's own settings and programs?", options, at=1))
    if known is not None:
        await talk.told("set_trust", trusted=known)
        text = "this project is trusted from the next start on" if known else "this project is not trusted"
        talk.front.show([Notice(text)])
