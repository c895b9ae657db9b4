"""Unified messages: any ACP agent, or any program at a terminal, behind one adapter."""

from typing import TYPE_CHECKING

from ...foundation.names import loading

if TYPE_CHECKING:
    from .backend import BackendAdapter, BackendCapabilities, BackendSession
    from .handlers import AdapterOptions, AgentRequestHandler, FileSystemHandler, TerminalHandler
    from .messages import (
        UnifiedMessage,
        UnifiedMessageError,
        configuration_change,
        interrupt,
        permission_response,
        reassembled,
        user_message,
    )
    from .process import AgentProcess

__all__ = [
    "AdapterOptions",
    "AgentProcess",
    "AgentRequestHandler",
    "BackendAdapter",
    "BackendCapabilities",
    "BackendSession",
    "FileSystemHandler",
    "TerminalHandler",
    "UnifiedMessage",
    "UnifiedMessageError",
    "configuration_change",
    "interrupt",
    "permission_response",
    "reassembled",
    "user_message",
]

__getattr__ = loading(
    __name__,
    {
        "backend": ("BackendAdapter", "BackendCapabilities", "BackendSession"),
        "handlers": ("AdapterOptions", "AgentRequestHandler", "FileSystemHandler", "TerminalHandler"),
        "messages": (
            "UnifiedMessage",
            "UnifiedMessageError",
            "configuration_change",
            "interrupt",
            "permission_response",
            "reassembled",
            "user_message",
        ),
        "process": ("AgentProcess",),
    },
)
