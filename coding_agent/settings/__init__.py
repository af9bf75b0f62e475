"""How the host runs: files, environment and flags as one frozen value, each field with where it came from."""

from coding_agent.settings.from_arguments import settings_of
from coding_agent.settings.reading import read_settings, runtime_dir
from coding_agent.settings.values import ResourceChoices, Settings

__all__ = ["ResourceChoices", "Settings", "read_settings", "runtime_dir", "settings_of"]
