"""The interactive terminal: a client of the RPC protocol and nothing else. Start with `app.run_terminal`."""
