"""The Agent Client Protocol, version 1: an editor as the front end. `agent` answers it, `updates` says what happens."""
