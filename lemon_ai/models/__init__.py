"""Models as data: one catalogue a provider, read when it is first asked for."""
