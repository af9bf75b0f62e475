"""What a host measures and remembers of itself, and shows to who asks for it: spans, lag, what happened before a crash.

`steps` makes runs, turns, calls and tools of telemetry; `traces` sends them away. `coding_agent.metrics` counts.
"""

from coding_agent.measuring.beginning import Measuring, begin

__all__ = ["Measuring", "begin"]
