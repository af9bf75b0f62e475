"""What files were like before the agent changed them, and how to get back there. See `guarded_tools` and `restore`."""
