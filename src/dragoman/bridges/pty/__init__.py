"""Programs that do not speak ACP, run as agents through a pseudo-terminal."""

from typing import TYPE_CHECKING

from ...foundation.names import loading

if TYPE_CHECKING:
    from .agent import PtyAgent, PtyOptions
    from .profiles import Profile, ProfileError
    from .screen import TerminalScreen

__all__ = ["Profile", "ProfileError", "PtyAgent", "PtyOptions", "TerminalScreen"]

__getattr__ = loading(
    __name__,
    {
        "agent": ("PtyAgent", "PtyOptions"),
        "profiles": ("Profile", "ProfileError"),
        "screen": ("TerminalScreen",),
    },
)
