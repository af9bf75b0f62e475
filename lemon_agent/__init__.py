"""Many model calls and tools, one conversation."""
