"""The whole protocol as two classes: what an agent answers, what a client answers.

A request is a coroutine, a notification a plain function: a notification cannot wait for anything, so it cannot
hold up what comes after it.  A method that is not overridden is forwarded to wherever the class forwards: for a
`Role` nowhere ("method not found"), for a `Remote` over the wire, for a proxy to the next in the chain.
"""

from typing import Any, TypeVar

from . import codec
from . import schema as s
from .events import Method
from .schema.mcp_connection import AnyMcpNotification, AnyMcpRequest
from .signatures import Role, extension, methods, offered, overrides, rpc

__all__ = [
    "AgentRole",
    "ClientRole",
    "checked",
    "extension",
    "methods",
    "offered",
    "overrides",
]

T = TypeVar("T")

QUICK, SLOW = 10.0, 60.0  # seconds; what is a question to a person has no limit
ASKING = 600.0  # what a careful client asks its user about before it does it


class AgentRole(Role):
    """What an agent answers."""

    # Handshake and authentication

    @rpc("initialize", opens=True)  # whoever starts an agent knows how long that may take
    async def initialize(self, params: s.InitializeRequest) -> s.InitializeResponse:
        """Agree on a protocol version and exchange capabilities; the first request of every connection."""

    @rpc("authenticate")
    async def authenticate(self, params: s.AuthenticateRequest) -> s.AuthenticateResponse:
        """Log in with one of the `auth_methods` that the agent listed in its `initialize` response."""

    @rpc("logout", capability="auth.logout")
    async def logout(self, params: s.LogoutRequest) -> s.LogoutResponse:
        """End the login; the agent asks for `authenticate` again where it needs one."""

    @rpc("auth/status", capability="auth.status", unstable=True)
    async def auth_status(self, params: s.AuthStatusRequest) -> s.AuthStatusResponse:
        """Report whether the user is logged in, and with which accounts."""

    # Sessions

    @rpc("session/new")
    async def new_session(self, params: s.NewSessionRequest) -> s.NewSessionResponse:
        """Open a new session in a directory, with the MCP servers it may use; the response has its id."""

    @rpc("session/load", capability="load_session")
    async def load_session(self, params: s.LoadSessionRequest) -> s.LoadSessionResponse:
        """Open a stored session and send its whole history as updates before the response."""

    @rpc("session/resume", capability="session_capabilities.resume")
    async def resume_session(self, params: s.ResumeSessionRequest) -> s.ResumeSessionResponse:
        """Open a stored session without sending its history again."""

    @rpc("session/fork", capability="session_capabilities.fork", unstable=True)
    async def fork_session(self, params: s.ForkSessionRequest) -> s.ForkSessionResponse:
        """Open a new session that starts with the history of another one."""

    @rpc("session/list", capability="session_capabilities.list")
    async def list_sessions(self, params: s.ListSessionsRequest) -> s.ListSessionsResponse:
        """List stored sessions, one page at a time; `next_cursor` asks for the following page."""

    @rpc("session/delete", capability="session_capabilities.delete")
    async def delete_session(self, params: s.DeleteSessionRequest) -> s.DeleteSessionResponse:
        """Delete a stored session and its history for good."""

    @rpc("session/close", capability="session_capabilities.close")
    async def close_session(self, params: s.CloseSessionRequest) -> s.CloseSessionResponse:
        """Cancel the session's turns and free what it holds; a stored session can be loaded again."""

    @rpc("session/archive", capability="session_capabilities.archive", unstable=True)
    async def archive_session(self, params: s.ArchiveSessionRequest) -> s.ArchiveSessionResponse:
        """Take a session out of the default list and keep its history."""

    @rpc("session/unarchive", capability="session_capabilities.archive", unstable=True)
    async def unarchive_session(self, params: s.UnarchiveSessionRequest) -> s.UnarchiveSessionResponse:
        """Put an archived session back into the default list."""

    @rpc("session/status", capability="session_capabilities.status", unstable=True)
    async def session_status(self, params: s.SessionStatusRequest) -> s.SessionStatusResponse:
        """Report whether a session is open or only stored; this changes nothing."""

    @rpc("session/set_title", capability="session_capabilities.title", unstable=True)
    async def set_title(self, params: s.SetSessionTitleRequest) -> s.SetSessionTitleResponse:
        """Give a session a title; the response has the title as the agent stored it."""

    @rpc("session/set_mode")
    async def set_mode(self, params: s.SetSessionModeRequest) -> s.SetSessionModeResponse:
        """Switch a session to another of its modes."""

    @rpc("session/set_config_option")
    async def set_config_option(self, params: s.SetSessionConfigOptionRequest) -> s.SetSessionConfigOptionResponse:
        """Set one option of a session; the response has all options, because one may change others."""

    # Prompts

    @rpc("session/prompt")
    async def prompt(self, params: s.PromptRequest) -> s.PromptResponse:
        """Give the agent a prompt and run a turn; the response comes when the turn is over and says why it
        stopped.
        """

    @rpc("session/cancel")
    def cancel(self, params: s.CancelNotification) -> None:
        """Stop the running turn of a session; its prompt is then answered with `cancelled`."""

    # Model providers

    @rpc("providers/list", capability="providers", unstable=True)
    async def list_providers(self, params: s.ListProvidersRequest) -> s.ListProvidersResponse:
        """List the model providers that the client may configure."""

    @rpc("providers/set", capability="providers", unstable=True)
    async def set_provider(self, params: s.SetProviderRequest) -> s.SetProviderResponse:
        """Point a model provider at an endpoint; this replaces its earlier configuration."""

    @rpc("providers/disable", capability="providers", unstable=True)
    async def disable_provider(self, params: s.DisableProviderRequest) -> s.DisableProviderResponse:
        """Stop using a model provider that is not required."""

    # MCP over ACP; in its first generation requests went both ways

    @rpc("mcp/message", unstable=True)
    def mcp_notification(self, params: AnyMcpNotification) -> None:
        """Deliver a notification of an MCP server that runs in the client."""

    @rpc("mcp/message", unstable=True)
    async def mcp_request(self, params: s.ConnectionMcpRequest) -> Any:
        """Deliver a request of an MCP server that runs in the client (first generation of MCP over ACP)."""

    # Next edit suggestions, frozen

    @rpc("nes/start", capability="nes", unstable=True)
    async def start_nes(self, params: s.StartNesRequest) -> s.StartNesResponse:
        """Open a session for next edit suggestions."""

    @rpc("nes/suggest", capability="nes", unstable=True)
    async def suggest_nes(self, params: s.SuggestNesRequest) -> s.SuggestNesResponse:
        """Ask for suggestions at a position of a document."""

    @rpc("nes/accept", capability="nes", unstable=True)
    def accept_nes(self, params: s.AcceptNesNotification) -> None:
        """Report that the user took a suggestion."""

    @rpc("nes/reject", capability="nes", unstable=True)
    def reject_nes(self, params: s.RejectNesNotification) -> None:
        """Report that the user did not take a suggestion, and why."""

    @rpc("nes/close", capability="nes", unstable=True)
    async def close_nes(self, params: s.CloseNesRequest) -> s.CloseNesResponse:
        """End a session for next edit suggestions."""

    @rpc("document/didOpen", capability="nes.events.document.did_open", unstable=True)
    def did_open_document(self, params: s.DidOpenDocumentNotification) -> None:
        """Report that a document was opened, with its text."""

    @rpc("document/didChange", capability="nes.events.document.did_change", unstable=True)
    def did_change_document(self, params: s.DidChangeDocumentNotification) -> None:
        """Report changes of an open document."""

    @rpc("document/didClose", capability="nes.events.document.did_close", unstable=True)
    def did_close_document(self, params: s.DidCloseDocumentNotification) -> None:
        """Report that a document was closed."""

    @rpc("document/didSave", capability="nes.events.document.did_save", unstable=True)
    def did_save_document(self, params: s.DidSaveDocumentNotification) -> None:
        """Report that a document was saved."""

    @rpc("document/didFocus", capability="nes.events.document.did_focus", unstable=True)
    def did_focus_document(self, params: s.DidFocusDocumentNotification) -> None:
        """Report that the user moved to a document, with the cursor and the visible lines."""

    # Proxy chains: what a conductor asks of a proxy

    @rpc("proxy/initialize", opens=True, timeout=SLOW, unstable=True)
    async def initialize_proxy(self, params: s.InitializeRequest) -> s.InitializeResponse:
        """Do the handshake with a component that stands between a client and its successor."""

    @rpc("proxy/successor", unstable=True)
    async def request_from_successor(self, params: s.ProxySuccessorRequest) -> Any:
        """Deliver a request that the proxy's successor sent; the response goes back to the successor."""

    @rpc("proxy/successor", unstable=True)
    def notification_from_successor(self, params: s.ProxySuccessorNotification) -> None:
        """Deliver a notification that the proxy's successor sent."""


class ClientRole(Role):
    """What a client answers."""

    @rpc("session/update")
    def update(self, params: s.SessionNotification) -> None:
        """Report progress of a session: text, thoughts, plans, tool calls, modes, usage and more."""

    @rpc("session/request_permission")
    async def request_permission(self, params: s.RequestPermissionRequest) -> s.RequestPermissionResponse:
        """Ask the user before a tool call runs; the response names the chosen option, or `cancelled`."""

    # Files

    @rpc("fs/read_text_file", capability="fs.read_text_file", timeout=ASKING)
    async def read_text_file(self, params: s.ReadTextFileRequest) -> s.ReadTextFileResponse:
        """Read a text file as the client has it, unsaved changes included."""

    @rpc("fs/write_text_file", capability="fs.write_text_file", timeout=ASKING)
    async def write_text_file(self, params: s.WriteTextFileRequest) -> s.WriteTextFileResponse:
        """Write a text file through the client, which creates it if it is missing."""

    # Terminals

    @rpc("terminal/create", capability="terminal", timeout=ASKING)
    async def create_terminal(self, params: s.CreateTerminalRequest) -> s.CreateTerminalResponse:
        """Start a command in the client; the response has the terminal's id at once."""

    @rpc("terminal/output", capability="terminal", timeout=QUICK)
    async def terminal_output(self, params: s.TerminalOutputRequest) -> s.TerminalOutputResponse:
        """Give the output so far and, once the command has ended, its exit status; this does not wait."""

    @rpc("terminal/wait_for_exit", capability="terminal")
    async def wait_for_terminal_exit(self, params: s.WaitForTerminalExitRequest) -> s.WaitForTerminalExitResponse:
        """Wait until the command ends; the response has its exit code or signal."""

    @rpc("terminal/kill", capability="terminal", timeout=QUICK)
    async def kill_terminal(self, params: s.KillTerminalRequest) -> s.KillTerminalResponse:
        """End the command; the terminal and its output stay until it is released."""

    @rpc("terminal/release", capability="terminal", timeout=QUICK)
    async def release_terminal(self, params: s.ReleaseTerminalRequest) -> s.ReleaseTerminalResponse:
        """End the command if it still runs, and free the terminal; its id is invalid afterwards."""

    # Questions to the user

    @rpc("elicitation/create", capability="elicitation")
    async def create_elicitation(self, params: s.CreateElicitationRequest) -> s.CreateElicitationResponse:
        """Ask the user to fill in a form or to visit a page."""

    @rpc("elicitation/complete", capability="elicitation.url")
    def complete_elicitation(self, params: s.CompleteElicitationNotification) -> None:
        """Report that the user has finished what a page asked for."""

    @rpc("auth/status_update", unstable=True)
    def auth_status_changed(self, params: s.AuthStatusUpdateNotification) -> None:
        """Report that the login changed; carries the whole new status."""

    # MCP over ACP, in both of its generations

    @rpc("mcp/message", unstable=True)
    async def message_mcp(self, params: AnyMcpRequest) -> Any:
        """Send a request to an MCP server that runs in the client; the response has the server's answer."""

    @rpc("mcp/message", unstable=True)
    def notify_mcp(self, params: s.ConnectionMcpNotification) -> None:
        """Send a notification to an MCP server that runs in the client (first generation of MCP over ACP)."""

    @rpc("mcp/connect", unstable=True)
    async def connect_mcp(self, params: s.ConnectMcpRequest) -> s.ConnectMcpResponse:
        """Open a connection to an MCP server that runs in the client (first generation of MCP over ACP)."""

    @rpc("mcp/disconnect", unstable=True)
    async def disconnect_mcp(self, params: s.DisconnectMcpRequest) -> s.DisconnectMcpResponse:
        """Close such a connection (first generation of MCP over ACP)."""

    # Proxy chains: what a proxy asks of its conductor

    @rpc("proxy/successor", unstable=True)
    async def request_to_successor(self, params: s.ProxySuccessorRequest) -> Any:
        """Have the conductor send a request to the proxy's successor; the response comes back."""

    @rpc("proxy/successor", unstable=True)
    def notification_to_successor(self, params: s.ProxySuccessorNotification) -> None:
        """Have the conductor send a notification to the proxy's successor."""


def checked(method: Method, params: T) -> T:
    """The params of a request, if the peer will be able to read them; raises TypeError where they are sent."""
    if wrong := codec.unsendable(params, method.params):
        raise TypeError(f"this {method.name} cannot be sent: {wrong}")
    return params
