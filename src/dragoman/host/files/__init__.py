"""The files a client lends an agent: a `Workspace`, and its handles."""

from typing import TYPE_CHECKING

from ...foundation.names import loading

if TYPE_CHECKING:
    from .handles import Directory, OpenFile, Target, Written
    from .workspace import Exemption, Permit, Workspace

__all__ = ["Directory", "Exemption", "OpenFile", "Permit", "Target", "Workspace", "Written"]

__getattr__ = loading(
    __name__,
    {
        "handles": ("Directory", "OpenFile", "Target", "Written"),
        "workspace": ("Exemption", "Permit", "Workspace"),
    },
)
