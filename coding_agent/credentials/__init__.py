"""What requests are made with: keys and logins a person stored, variables, and who is asked for which."""

from coding_agent.credentials.credentials import Credentials, has_key, known_secrets

__all__ = ["Credentials", "has_key", "known_secrets"]
