"""The coding agent: a loop of its own around any language model, and a scripted model to try it with."""

from .agent import Coder
from .model import Model
from .scripted import ScriptedModel, call, call_with, pause, stop, think

__all__ = ["Coder", "Model", "ScriptedModel", "call", "call_with", "pause", "stop", "think"]
