"""The tools: what a model can ask the agent to do.

A tool is a struct: its fields are the arguments, its docstring is the description for the model, `run` runs it.
"""

from .asking import AskAssistant, AskUser, ExitPlan, Task, UpdatePlan, UseSkill
from .commands import CommandOutput, RunCommand, StopCommand
from .fetching import FetchUrl
from .files import EditFile, ReadFile, WriteFile
from .patching import ApplyPatch
from .searching import ListFiles, Search
from .tool import Tool, Work, spec_of

__all__ = [
    "ApplyPatch",
    "AskAssistant",
    "AskUser",
    "CommandOutput",
    "EditFile",
    "ExitPlan",
    "FetchUrl",
    "ListFiles",
    "ReadFile",
    "RunCommand",
    "Search",
    "StopCommand",
    "Task",
    "Tool",
    "UpdatePlan",
    "UseSkill",
    "Work",
    "WriteFile",
    "spec_of",
]
