"""Values. How the host runs, in groups; `schema` has the name of each in a file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

from attrs import Factory, field, frozen

from coding_agent.settings.layers import Merged
from coding_agent.trust import Trust

QueueMode: TypeAlias = Literal["one_at_a_time", "all"]
Transport: TypeAlias = Literal["sse", "websocket", "auto"]


@frozen(kw_only=True)
class ResourceChoices:
    """Which files of a person and a project are read; see `coding_agent.resources`.

    Attributes:
        context_files: `AGENTS.md` and `CLAUDE.md`.
        use_skills: Skills.
        use_templates: Prompt templates.
        use_extensions: Extensions.
        use_mcp: The servers of MCP configuration files.
        mcp_sampling: These may have the model answer, each time permission and budget allow it.
        skill_commands: Skills are offered as `/skill:NAME`.
        skills: Further files and folders of skills, as absolute paths and globs; `!` in front leaves out.
        templates: The same of templates.
        extensions: The same of extensions.
        system_prompt: Stands in for the agent's identity: a text, or a file's path.
        append_prompt: Is added to it.
        claude_skills: Those of `~/.claude/skills` too.
        claude_commands: Those of `.claude/commands` as templates too.
        codex_skills: Those of `~/.codex/skills` too.
    """

    context_files: bool = True
    use_skills: bool = True
    use_templates: bool = True
    use_extensions: bool = True
    use_mcp: bool = True
    mcp_sampling: bool = False
    skill_commands: bool = True
    skills: tuple[str, ...] = ()
    templates: tuple[str, ...] = ()
    extensions: tuple[str, ...] = ()
    system_prompt: str | None = None
    append_prompt: str | None = None
    claude_skills: bool = False
    claude_commands: bool = False
    codex_skills: bool = False


@frozen(kw_only=True)
class CompactionChoices:
    """When a conversation is made shorter, and what is left; in tokens."""

    enabled: bool = True
    reserve_tokens: int = 16_384
    keep_recent_tokens: int = 20_000


@frozen(kw_only=True)
class BranchSummaryChoices:
    """What happens to a branch that is left."""

    reserve_tokens: int = 16_384
    skip_prompt: bool = False


@frozen(kw_only=True)
class RetryChoices:
    """How often a provider is asked again after a passing failure, and how long is waited; None is its own way."""

    enabled: bool = True
    max_retries: int | None = None
    base_delay_ms: int | None = None
    max_delay_ms: int = 60_000


@frozen(kw_only=True)
class PermissionChoices:
    """What may be done without asking.

    Attributes:
        mode: None is the default of the way the program runs.
        mode_cap: A project asks for this mode, or a stricter one.
        asked: The person named the mode for this start.
        allow, ask, deny: Rules.
    """

    mode: str | None = None
    mode_cap: str | None = None
    asked: bool = False
    allow: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()


@frozen(kw_only=True)
class BudgetChoices:
    """What a session may use up; None is no limit."""

    max_tokens: int | None = None
    max_cost: float | None = None
    max_turns: int | None = None
    max_seconds: float | None = None
    max_children: int | None = None


@frozen(kw_only=True)
class SubagentChoices:
    """How subagents are run; without a deadline of its own the program's holds."""

    depth: int = 1
    timeout_ms: int | None = None


@frozen(kw_only=True)
class ImageChoices:
    """What happens to pictures."""

    auto_resize: bool = True
    block: bool = False


@frozen(kw_only=True)
class DisplayChoices:
    """What a person sees, as far as the client they use asks for it; `hide_thinking` None folds it."""

    theme: str = "dark"
    hide_thinking: bool | None = None
    quiet_startup: bool = False
    show_images: bool = True
    notifications: bool = True
    double_escape_action: str = "tree"
    tree_filter_mode: str = "default"
    editor_padding: int = 0
    autocomplete_max: int = 5


@frozen
class Settings:
    """How the host runs. What is read of files has a default here, so that a program can make one by hand.

    Attributes:
        cwd: The folder the agent works in; it exists and can be read.
        session_dir: Where session files are kept, a folder for each `cwd` inside.
        runtime_dir: A private folder for the control socket of a running host.
        model: `provider/model` as asked for with this start, or None.
        base_url: Where an OpenAI-compatible server listens, or None for the provider's own address.
        thinking_level: `off`, `minimal`, `low`, `medium`, `high`, `xhigh` or `max`.
        thinking_asked: The level was asked for with this start, so it holds for a session that goes on too.
        default_model: `provider/model`, or a provider alone, of a settings file.
        default_base_url: Where a settings file says that it is served.
        fallback_models: Who answers in its place, in this order, as `provider/model`.
        enabled_models: The models to go through with one key, as patterns.
        home: The person's home folder.
        config_dir: Their folder for settings of this program.
        state_dir: Their folder for what it keeps.
        offline: No other machine is reached.
        extra_tools: Tools that are offered beside the usual ones.
        shell_prefix: Is put before each command the model runs.
        trust: How things stand between the person and the project; None when nobody has looked.
        merged: Every setting by its name in a file, with where it came from.
        problems: What could not be used, a line each.
    """

    cwd: Path
    session_dir: Path
    runtime_dir: Path
    model: str | None = None
    base_url: str | None = None
    thinking_level: str = "off"
    thinking_asked: bool = field(default=False, kw_only=True)
    default_model: str | None = field(default=None, kw_only=True)
    default_base_url: str | None = field(default=None, kw_only=True)
    fallback_models: tuple[str, ...] = field(default=(), kw_only=True)
    enabled_models: tuple[str, ...] = field(default=(), kw_only=True)
    thinking_budgets: Mapping[str, int] = field(factory=dict, kw_only=True)
    transport: Transport = field(default="sse", kw_only=True)
    steering_mode: QueueMode = field(default="one_at_a_time", kw_only=True)
    follow_up_mode: QueueMode = field(default="one_at_a_time", kw_only=True)
    max_tool_turns: int = field(default=25, kw_only=True)
    compaction: CompactionChoices = field(factory=CompactionChoices, kw_only=True)
    branch_summary: BranchSummaryChoices = field(factory=BranchSummaryChoices, kw_only=True)
    retry: RetryChoices = field(factory=RetryChoices, kw_only=True)
    permissions: PermissionChoices = field(factory=PermissionChoices, kw_only=True)
    sandbox: str | None = field(default=None, kw_only=True)
    checkpoints: bool = field(default=True, kw_only=True)
    budget: BudgetChoices = field(factory=BudgetChoices, kw_only=True)
    subagents: SubagentChoices = field(factory=SubagentChoices, kw_only=True)
    images: ImageChoices = field(factory=ImageChoices, kw_only=True)
    display: DisplayChoices = field(factory=DisplayChoices, kw_only=True)
    offline: bool = field(default=False, kw_only=True)
    extra_tools: tuple[str, ...] = field(default=(), kw_only=True)
    shell_prefix: str | None = field(default=None, kw_only=True)
    resources: ResourceChoices = field(factory=ResourceChoices, kw_only=True)
    home: Path = field(factory=Path.home, kw_only=True)
    config_dir: Path = field(default=Factory(lambda self: self.home / ".config" / "lemon", True), kw_only=True)
    state_dir: Path = field(default=Factory(lambda self: self.home / ".local" / "state" / "lemon", True), kw_only=True)
    trust: Trust | None = field(default=None, kw_only=True)
    merged: Merged | None = field(default=None, kw_only=True, repr=False)
    problems: tuple[str, ...] = field(default=(), kw_only=True)

    @property
    def trusted(self) -> bool:
        """Do the project's own files count?"""
        return self.trust is not None and self.trust.trusted

    @property
    def pending(self) -> tuple[str, ...]:
        """The project's files that wait for trust, a line each."""
        return self.trust.pending if self.trust is not None else ()

    def shown(self) -> dict[str, Any]:
        """Every setting by its name in a file, for a program that asks."""
        from coding_agent.settings.layers import nested

        return {} if self.merged is None else nested((key, each.shown) for key, each in self.merged.settings.items())
