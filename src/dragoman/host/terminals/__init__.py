"""Commands run for an agent: `Terminals` starts them, a `Terminal` is one of them, a `Sandbox` holds them."""

from .limits import Limits
from .output import Chunk
from .running import Terminals, execution
from .sandbox import Sandbox, SandboxUnavailable
from .terminal import Size, Terminal

__all__ = ["Chunk", "Limits", "Sandbox", "SandboxUnavailable", "Size", "Terminal", "Terminals", "execution"]
