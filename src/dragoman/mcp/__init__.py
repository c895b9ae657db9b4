"""MCP servers a client gives a session, as an agent uses them: `session.tools()` gives `SessionTools`."""

from .connections import McpFailure
from .contents import PromptMessage, ToolResult
from .listings import PromptArgument, PromptInfo, ResourceTemplate, ToolInfo
from .questions import SamplingRequest
from .servers import SessionServer, connected
from .session_tools import SessionTools
from .trust import ServerApprovals

__all__ = [
    "McpFailure",
    "PromptArgument",
    "PromptInfo",
    "PromptMessage",
    "ResourceTemplate",
    "SamplingRequest",
    "ServerApprovals",
    "SessionServer",
    "SessionTools",
    "ToolInfo",
    "ToolResult",
    "connected",
]
