"""Subagents: what they are defined by, what they are asked, how one of them is run. `coordinator` starts them."""
