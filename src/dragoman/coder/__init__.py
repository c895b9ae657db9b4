"""The coding agent: a loop of its own around any language model, and a scripted model to try it with."""

from typing import TYPE_CHECKING

from ..foundation.names import loading

if TYPE_CHECKING:
    from .agent import Coder
    from .model.port import Model
    from .model.scripted import ScriptedModel, call, call_with, pause, stop, think

__all__ = ["Coder", "Model", "ScriptedModel", "call", "call_with", "pause", "stop", "think"]

__getattr__ = loading(
    __name__,
    {
        "agent": ("Coder",),
        "model.port": ("Model",),
        "model.scripted": ("ScriptedModel", "call", "call_with", "pause", "stop", "think"),
    },
)
