"""One conversation with a person: its process, what can be asked of it, and the rules it goes by."""
