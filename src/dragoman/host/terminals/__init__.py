"""Commands run for an agent: `Terminals` starts them, a `Terminal` is one of them, a `Sandbox` holds them."""

from typing import TYPE_CHECKING

from ...foundation.names import loading

if TYPE_CHECKING:
    from .limits import Limits
    from .output import Chunk
    from .running import Terminals, execution
    from .sandbox.sandbox import Sandbox, SandboxUnavailable
    from .terminal import Size, Terminal

__all__ = ["Chunk", "Limits", "Sandbox", "SandboxUnavailable", "Size", "Terminal", "Terminals", "execution"]

__getattr__ = loading(
    __name__,
    {
        "limits": ("Limits",),
        "output": ("Chunk",),
        "running": ("Terminals", "execution"),
        "sandbox.sandbox": ("Sandbox", "SandboxUnavailable"),
        "terminal": ("Size", "Terminal"),
    },
)
