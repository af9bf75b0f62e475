"""Recorded exchanges, played back over HTTP to the real providers. `python -m tests.cassettes PATH...`"""
