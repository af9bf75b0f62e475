"""What happens between a prompt and the end of the run it starts."""
