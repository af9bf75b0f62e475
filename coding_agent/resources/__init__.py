"""What a person and a project say to the agent in files: context files, skills, templates, prompts, subagents."""

from coding_agent.resources.context_files import ContextFile
from coding_agent.resources.loading import Resources, load_resources
from coding_agent.resources.skills import Skill
from coding_agent.resources.templates import Template

__all__ = ["ContextFile", "Resources", "Skill", "Template", "load_resources"]
