"""Sessions on disk: a tree of entries in one append-only file. Start with `session_manager`."""
