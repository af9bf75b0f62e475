"""Values. How the host runs, in groups."""

from pathlib import Path

from attrs import Factory, field, frozen


@frozen(kw_only=True)
class ResourceChoices:
    """Which files of a person and a project are read; see `coding_agent.resources`.

    Attributes:
        context_files: `AGENTS.md` and `CLAUDE.md`.
        use_skills: Skills.
        use_templates: Prompt templates.
        skill_commands: Skills are offered as `/skill:NAME`.
        skills: Further files and folders of skills, as absolute paths and globs; `!` in front leaves out.
        templates: The same of templates.
        system_prompt: Stands in for the agent's identity: a text, or a file's path.
        append_prompt: Is added to it.
        claude_skills: Those of `~/.claude/skills` too.
        claude_commands: Those of `.claude/commands` as templates too.
        codex_skills: Those of `~/.codex/skills` too.
    """

    context_files: bool = True
    use_skills: bool = True
    use_templates: bool = True
    skill_commands: bool = True
    skills: tuple[str, ...] = ()
    templates: tuple[str, ...] = ()
    system_prompt: str | None = None
    append_prompt: str | None = None
    claude_skills: bool = False
    claude_commands: bool = False
    codex_skills: bool = False


@frozen
class Settings:
    """How the host runs.

    Attributes:
        cwd: The folder the agent works in; it exists and can be read.
        session_dir: Where session files are kept, a folder for each `cwd` inside.
        runtime_dir: A private folder for the control socket of a running host.
        model: `provider/model`, or None to choose one that is there.
        base_url: Where an OpenAI-compatible server listens, or None for the provider's own address.
        thinking_level: `off`, `minimal`, `low`, `medium`, `high` or `xhigh`.
        home: The person's home folder.
        config_dir: Their folder for settings of this program.
        resources: Which further files are read.
        pending: The project's files that wait for trust.
    """

    cwd: Path
    session_dir: Path
    runtime_dir: Path
    model: str | None = None
    base_url: str | None = None
    thinking_level: str = "off"
    home: Path = field(factory=Path.home, kw_only=True)
    config_dir: Path = field(
        default=Factory(lambda self: self.home / ".config" / "lemon", takes_self=True), kw_only=True
    )
    resources: ResourceChoices = field(factory=ResourceChoices, kw_only=True)
    pending: tuple[str, ...] = field(default=(), kw_only=True)
