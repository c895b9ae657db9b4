"""The files a client lends an agent: a `Workspace`, and what it hands out."""

from .handles import Directory, OpenFile, Target, Written
from .workspace import Exemption, Permit, Workspace

__all__ = ["Directory", "Exemption", "OpenFile", "Permit", "Target", "Workspace", "Written"]
