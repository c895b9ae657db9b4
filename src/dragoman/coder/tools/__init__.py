"""The tools: what a model can ask the agent to do.

A tool is a struct: its fields are the arguments, its docstring is what the model is told of it, `run` does it.
"""

from .asking import AskUser, ExitPlan, Task, UpdatePlan, UseSkill
from .commands import CommandOutput, RunCommand, StopCommand
from .fetching import FetchUrl
from .files import EditFile, ReadFile, WriteFile
from .patching import ApplyPatch
from .searching import ListFiles, Search
from .tool import Explore, Tool, Work, spec_of

__all__ = [
    "ApplyPatch",
    "AskUser",
    "CommandOutput",
    "EditFile",
    "ExitPlan",
    "Explore",
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
