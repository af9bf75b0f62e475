"""Pure. Settings by their names in a file, as the groups of `values`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from coding_agent.settings import values
from coding_agent.settings.layers import Merged
from coding_agent.trust import Trust

_LISTS = {"skills": "skills", "templates": "prompts", "extensions": "extensions"}


def typed(
    merged: Merged,
    *,
    cwd: Path,
    session_dir: Path,
    runtime_dir: Path,
    model: str | None,
    base_url: str | None,
    own: tuple[Path, Path, Path],
    trust: Trust,
    choices: Mapping[str, Any],
) -> values.Settings:
    """The value of one start.

    Args:
        merged: What all places come to.
        cwd: The working folder.
        session_dir: Where sessions are kept.
        runtime_dir: Where control sockets lie.
        model: As asked for with this start.
        base_url: The same.
        own: The person's folders: home, settings, state.
        trust: How things stand with the project.
        choices: Fields of `ResourceChoices` that flags give.
    """
    of = merged.value
    home, config, state = own
    sandbox = of("sandbox")
    return values.Settings(
        cwd=cwd,
        session_dir=session_dir,
        runtime_dir=runtime_dir,
        model=model,
        base_url=base_url,
        thinking_level=of("defaultThinkingLevel"),
        thinking_asked=merged.asked("defaultThinkingLevel"),
        default_model=_default_model(of("defaultProvider"), of("defaultModel")),
        default_base_url=of("baseUrl"),
        fallback_models=of("fallbackModels"),
        enabled_models=of("enabledModels"),
        thinking_budgets=of("thinkingBudgets"),
        transport=of("transport"),
        steering_mode=_queue_mode(of("steeringMode")),
        follow_up_mode=_queue_mode(of("followUpMode")),
        max_tool_turns=of("maxToolTurns"),
        compaction=values.CompactionChoices(**_group(merged, "compaction")),
        branch_summary=values.BranchSummaryChoices(**_group(merged, "branchSummary")),
        retry=values.RetryChoices(**_group(merged, "retry")),
        permissions=values.PermissionChoices(
            **_group(merged, "permissions"), mode_cap=merged.mode_cap, asked=merged.asked("permissions.mode")
        ),
        sandbox=None if sandbox == "off" else sandbox,
        checkpoints=of("checkpoints"),
        budget=values.BudgetChoices(**_group(merged, "budget")),
        subagents=values.SubagentChoices(**_group(merged, "subagents")),
        images=values.ImageChoices(auto_resize=of("images.autoResize"), block=of("images.blockImages")),
        display=_display(merged),
        offline=of("offline"),
        extra_tools=tuple(of("extraTools")),
        shell_prefix=of("shellCommandPrefix"),
        resources=_resources(merged, choices),
        home=home,
        config_dir=config,
        state_dir=state,
        trust=trust,
        merged=merged,
        problems=merged.problems,
    )


def _display(merged: Merged) -> values.DisplayChoices:
    of = merged.value
    return values.DisplayChoices(
        theme=of("theme"),
        hide_thinking=of("hideThinkingBlock"),
        quiet_startup=of("quietStartup"),
        show_images=of("terminal.showImages"),
        notifications=of("notifications"),
        double_escape_action=of("doubleEscapeAction"),
        tree_filter_mode=of("treeFilterMode"),
        editor_padding=of("editorPaddingX"),
        autocomplete_max=of("autocompleteMaxVisible"),
    )


def _resources(merged: Merged, choices: Mapping[str, Any]) -> values.ResourceChoices:
    of = merged.value
    given = dict(choices)
    lists = {name: (*of(key), *given.pop(name, ())) for name, key in _LISTS.items()}
    files: dict[str, Any] = {
        "context_files": of("contextFiles"),
        "skill_commands": of("enableSkillCommands"),
        "use_mcp": of("mcp"),
        "mcp_sampling": of("mcpSampling"),
        "claude_skills": of("claudeSkills"),
        "claude_commands": of("claudeCommands"),
        "codex_skills": of("codexSkills"),
    }
    return values.ResourceChoices(**{**files, **lists, **given})


def _group(merged: Merged, name: str) -> dict[str, Any]:
    return {
        _snake(key.partition(".")[2]): each.value for key, each in merged.settings.items() if key.startswith(f"{name}.")
    }


def _snake(name: str) -> str:
    return "".join(f"_{char.lower()}" if char.isupper() else char for char in name)


def _queue_mode(word: str) -> values.QueueMode:
    return "all" if word == "all" else "one_at_a_time"


def _default_model(provider: str | None, model: str | None) -> str | None:
    """`provider/model`; a name that has a slash may have its provider with it, unless one is named besides."""
    if model is None:
        return provider
    return f"{provider}/{model}" if provider and not model.startswith(f"{provider}/") else model
