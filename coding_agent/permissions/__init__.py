"""What an agent may do without asking, and who is asked about the rest. Start with `policy` and `gate`."""
