"""What every front end shares: one start of the host, and a client's view of a conversation."""
