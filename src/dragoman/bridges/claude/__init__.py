"""Claude as an ACP agent, through the `claude` program of claude-agent-sdk."""

from typing import TYPE_CHECKING

from ...foundation.names import loading

if TYPE_CHECKING:
    from .agent import ClaudeAgent

__all__ = ["ClaudeAgent"]

__getattr__ = loading(__name__, {"agent": ("ClaudeAgent",)})
