"""Programs of the tools with fewer rights: `bubblewrap` where it works, else the kernel's Landlock."""

from coding_agent.sandbox.bubblewrap import notice, sandboxed_keeper, secrets_of, unavailable

__all__ = ["notice", "sandboxed_keeper", "secrets_of", "unavailable"]
