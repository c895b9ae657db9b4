"""Commands run for an agent: `Terminals` starts them, a `Terminal` is one command, a `Sandbox` confines it."""

from typing import TYPE_CHECKING

from ...foundation.names import loading

if TYPE_CHECKING:
    from .limits import TerminalLimits
    from .output import Chunk
    from .running import Terminals, execution
    from .sandbox.sandbox import Sandbox, SandboxUnavailable
    from .terminal import Size, Terminal

__all__ = ["Chunk", "Sandbox", "SandboxUnavailable", "Size", "Terminal", "TerminalLimits", "Terminals", "execution"]

__getattr__ = loading(
    __name__,
    {
        "limits": ("TerminalLimits",),
        "output": ("Chunk",),
        "running": ("Terminals", "execution"),
        "sandbox.sandbox": ("Sandbox", "SandboxUnavailable"),
        "terminal": ("Size", "Terminal"),
    },
)
