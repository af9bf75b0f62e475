"""The page that draws the loop's states, made from its table: `python -m tests.loop_states --write`."""

import sys
from pathlib import Path

from lemon_agent.loop.state_machine import FINAL, TRANSITIONS

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "loop-states.md"

MEANING = {
    "initializing": "The run has begun; its prompts are said.",
    "await_model": "The conversation is prepared and the model is answering.",
    "normalizing_response": "The answer is complete and is looked at.",
    "executing_tools": "The tools it asked for are running.",
    "awaiting_tool_results": "Every call has its result; hooks and queues are asked.",
    "recovering_provider_error": "The model call failed, or could not be made.",
    "compressing_context": "For hosts that compact inside a run; the loop itself never goes there.",
    "finalizing": "Nothing is left to do.",
    "aborted": "Somebody ended the run.",
}


def page() -> str:
    """The page as it should be."""
    edges = [f"    {state or '[*]'} --> {to}" for state, following in TRANSITIONS.items() for to in following]
    edges += [f"    {state} --> [*]" for state in sorted(FINAL)]
    rows = [f"| `{state}` | {MEANING[state]} |" for state in TRANSITIONS if state is not None]
    return "\n".join(
        [
            "# The states of a run",
            "",
            "Drawn from the table in `lemon_agent.loop.state_machine`; a test compares both and walks all pairs.",
            "Each step is a `LoopStateTransition` event and telemetry `lemon_agent.loop.state_transition`.",
            "",
            "```mermaid",
            "stateDiagram-v2",
            *edges,
            "```",
            "",
            "| state | meaning |",
            "|---|---|",
            *rows,
            "",
        ]
    )


if __name__ == "__main__":
    if "--write" in sys.argv:
        PAGE.write_text(page(), encoding="utf-8")
    else:
        print(page())
