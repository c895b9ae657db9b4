"""The whole protocol as two classes: what an agent answers, what a client answers.

A request is a coroutine, a notification a plain function: a notification cannot wait for anything, so it cannot
hold up what comes after it.  A method that is not overridden is forwarded to wherever the class forwards: for a
`Role` nowhere ("method not found"), for a `Remote` over the wire, for a proxy to the next in the chain.
"""

import functools
import inspect
import typing
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, Protocol, TypeVar, overload

import msgspec

from . import codec
from . import schema as s
from .definitions import check_definition
from .errors import MethodNotFound, NotOffered
from .rpc import Method
from .schema.mcp_connection import AnyMcpNotification, AnyMcpRequest

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

QUICK, SLOW = 10.0, 60.0  # seconds; what is a question to a person has no limit
READABLE = "Use a msgspec.Struct, a dataclass, a TypedDict, dict or Any"
ASKING = 600.0  # what a careful client asks its user about before it does it


def rpc(
    name: str, *, gate: str = "", unstable: bool = False, timeout: float | None = None, opens: bool = False
) -> Callable[[F], F]:
    """Give a signature its name on the wire; the body that is not there forwards."""

    def mark(stub: F) -> F:
        types, is_request = stub.__annotations__, inspect.iscoroutinefunction(stub)
        result = types["return"] if is_request else None
        method = Method(name, types["params"], result, is_request, opens, gate, timeout, unstable)
        if is_request:

            async def request(self: Role, params: Any) -> Any:
                return await self._request(method, params)

            return _marked(request, stub, method)

        def notification(self: Role, params: Any) -> None:
            self._notify(method, params)

        return _marked(notification, stub, method)

    return mark


def _marked(forwarder: Any, stub: F, method: Method) -> F:
    forwarder.forwards = method
    functools.update_wrapper(forwarder, stub)
    return forwarder  # type: ignore[no-any-return]


def extension(name: str) -> Callable[[F], F]:
    """Make a method of an `Agent` or `Client` answer an extension of the protocol: `@extension("_acme/ping")`."""
    if not isinstance(name, str):
        raise TypeError('extension takes the name of a method of the protocol: write @extension("_name")')
    if not name.startswith("_"):
        raise ValueError(f"an extension's name starts with an underscore: {name!r}")

    def mark(function: F) -> F:
        body = inspect.currentframe().f_back  # type: ignore[union-attr]  # of the class that is being defined
        params = _taken(function, name, {**body.f_back.f_locals, **body.f_locals})  # type: ignore[union-attr]
        if inspect.isasyncgenfunction(function):
            raise TypeError(f"@extension({name!r}) on {function.__qualname__} must not yield: it is awaited")
        function.extends = Method(name, params, Any, inspect.iscoroutinefunction(function))  # type: ignore[attr-defined]
        return function

    return mark


def _taken(function: Callable[..., Any], name: str, scope: Mapping[str, Any]) -> Any:
    """The type of an extension's params: found out where the class is defined, for nobody could be told later."""
    where = f"@extension({name!r}) on {function.__qualname__}"
    try:
        signature = inspect.signature(function)
        signature.bind("self", "params")
        taken = list(signature.parameters.values())[1]
        annotated = SimpleNamespace(__annotations__={taken.name: taken.annotation})
        types = typing.get_type_hints(annotated, function.__globals__, scope, include_extras=True)
    except IndexError:
        return Any  # it takes whatever it is given
    except NameError as exc:
        raise TypeError(f"{where}: the type of its parameter is not known here: {exc}") from None
    except TypeError as exc:
        raise TypeError(f"{where} is called with self and the params: {exc}") from None
    if taken.annotation is taken.empty:
        return Any
    try:
        return codec.readable(types[taken.name])
    except TypeError as exc:
        raise TypeError(f"{where}: its parameter {taken.name!r} cannot be read: {exc}. {READABLE}") from None


class Role:
    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        check_definition(cls)

    async def _request(self, method: Method, params: Any) -> Any:
        raise MethodNotFound(data={"method": method.name})

    def _notify(self, method: Method, params: Any) -> None:
        """A notification nobody handles is ignored, as the protocol asks."""

    def answers(self, role: type[Any]) -> tuple[Mapping[str, Method], Mapping[str, Method]]:
        """The requests and notifications of a role this object answers, each with its handler."""
        own = type(self)
        found = [(method, name) for name, method in methods(role).items() if overrides(own, name)]
        found += [(getattr(own, name).extends, name) for name in _extensions(own)]
        bound = [msgspec.structs.replace(method, handler=getattr(self, name)) for method, name in found]
        requests = {method.name: method for method in bound if method.is_request}
        return requests, {method.name: method for method in bound if not method.is_request}


class AgentRole(Role):
    """What an agent answers."""

    # Handshake and authentication

    @rpc("initialize", opens=True)  # whoever starts an agent knows how long that may take
    async def initialize(self, params: s.InitializeRequest) -> s.InitializeResponse: ...
    @rpc("authenticate")
    async def authenticate(self, params: s.AuthenticateRequest) -> s.AuthenticateResponse: ...
    @rpc("logout", gate="auth.logout")
    async def logout(self, params: s.LogoutRequest) -> s.LogoutResponse: ...
    @rpc("auth/status", gate="auth.status", unstable=True)
    async def auth_status(self, params: s.AuthStatusRequest) -> s.AuthStatusResponse: ...

    # Sessions

    @rpc("session/new")
    async def new_session(self, params: s.NewSessionRequest) -> s.NewSessionResponse: ...
    @rpc("session/load", gate="load_session")
    async def load_session(self, params: s.LoadSessionRequest) -> s.LoadSessionResponse: ...
    @rpc("session/resume", gate="session_capabilities.resume")
    async def resume_session(self, params: s.ResumeSessionRequest) -> s.ResumeSessionResponse: ...
    @rpc("session/fork", gate="session_capabilities.fork", unstable=True)
    async def fork_session(self, params: s.ForkSessionRequest) -> s.ForkSessionResponse: ...
    @rpc("session/list", gate="session_capabilities.list")
    async def list_sessions(self, params: s.ListSessionsRequest) -> s.ListSessionsResponse: ...
    @rpc("session/delete", gate="session_capabilities.delete")
    async def delete_session(self, params: s.DeleteSessionRequest) -> s.DeleteSessionResponse: ...
    @rpc("session/close", gate="session_capabilities.close")
    async def close_session(self, params: s.CloseSessionRequest) -> s.CloseSessionResponse: ...
    @rpc("session/archive", gate="session_capabilities.archive", unstable=True)
    async def archive_session(self, params: s.ArchiveSessionRequest) -> s.ArchiveSessionResponse: ...
    @rpc("session/unarchive", gate="session_capabilities.archive", unstable=True)
    async def unarchive_session(self, params: s.UnarchiveSessionRequest) -> s.UnarchiveSessionResponse: ...
    @rpc("session/status", gate="session_capabilities.status", unstable=True)
    async def session_status(self, params: s.SessionStatusRequest) -> s.SessionStatusResponse: ...
    @rpc("session/set_title", gate="session_capabilities.title", unstable=True)
    async def set_title(self, params: s.SetSessionTitleRequest) -> s.SetSessionTitleResponse: ...
    @rpc("session/set_mode")
    async def set_mode(self, params: s.SetSessionModeRequest) -> s.SetSessionModeResponse: ...
    @rpc("session/set_config_option")
    async def set_config_option(
        self, params: s.SetSessionConfigOptionRequest
    ) -> s.SetSessionConfigOptionResponse: ...

    # Prompts

    @rpc("session/prompt")
    async def prompt(self, params: s.PromptRequest) -> s.PromptResponse: ...
    @rpc("session/cancel")
    def cancel(self, params: s.CancelNotification) -> None: ...

    # Model providers

    @rpc("providers/list", gate="providers", unstable=True)
    async def list_providers(self, params: s.ListProvidersRequest) -> s.ListProvidersResponse: ...
    @rpc("providers/set", gate="providers", unstable=True)
    async def set_provider(self, params: s.SetProviderRequest) -> s.SetProviderResponse: ...
    @rpc("providers/disable", gate="providers", unstable=True)
    async def disable_provider(self, params: s.DisableProviderRequest) -> s.DisableProviderResponse: ...

    # MCP over ACP; in its first generation requests went both ways

    @rpc("mcp/message", unstable=True)
    def mcp_notification(self, params: AnyMcpNotification) -> None: ...
    @rpc("mcp/message", unstable=True)
    async def mcp_request(self, params: s.ConnectionMcpRequest) -> Any: ...

    # Next edit suggestions, frozen

    @rpc("nes/start", gate="nes", unstable=True)
    async def start_nes(self, params: s.StartNesRequest) -> s.StartNesResponse: ...
    @rpc("nes/suggest", gate="nes", unstable=True)
    async def suggest_nes(self, params: s.SuggestNesRequest) -> s.SuggestNesResponse: ...
    @rpc("nes/accept", gate="nes", unstable=True)
    def accept_nes(self, params: s.AcceptNesNotification) -> None: ...
    @rpc("nes/reject", gate="nes", unstable=True)
    def reject_nes(self, params: s.RejectNesNotification) -> None: ...
    @rpc("nes/close", gate="nes", unstable=True)
    async def close_nes(self, params: s.CloseNesRequest) -> s.CloseNesResponse: ...
    @rpc("document/didOpen", gate="nes.events.document.did_open", unstable=True)
    def did_open_document(self, params: s.DidOpenDocumentNotification) -> None: ...
    @rpc("document/didChange", gate="nes.events.document.did_change", unstable=True)
    def did_change_document(self, params: s.DidChangeDocumentNotification) -> None: ...
    @rpc("document/didClose", gate="nes.events.document.did_close", unstable=True)
    def did_close_document(self, params: s.DidCloseDocumentNotification) -> None: ...
    @rpc("document/didSave", gate="nes.events.document.did_save", unstable=True)
    def did_save_document(self, params: s.DidSaveDocumentNotification) -> None: ...
    @rpc("document/didFocus", gate="nes.events.document.did_focus", unstable=True)
    def did_focus_document(self, params: s.DidFocusDocumentNotification) -> None: ...

    # Proxy chains: what a conductor asks of a proxy

    @rpc("proxy/initialize", opens=True, timeout=SLOW, unstable=True)
    async def initialize_proxy(self, params: s.InitializeRequest) -> s.InitializeResponse: ...
    @rpc("proxy/successor", unstable=True)
    async def request_from_successor(self, params: s.ProxySuccessorRequest) -> Any: ...
    @rpc("proxy/successor", unstable=True)
    def notification_from_successor(self, params: s.ProxySuccessorNotification) -> None: ...


class ClientRole(Role):
    """What a client answers."""

    @rpc("session/update")
    def update(self, params: s.SessionNotification) -> None: ...
    @rpc("session/request_permission")
    async def request_permission(self, params: s.RequestPermissionRequest) -> s.RequestPermissionResponse: ...

    # Files

    @rpc("fs/read_text_file", gate="fs.read_text_file", timeout=ASKING)
    async def read_text_file(self, params: s.ReadTextFileRequest) -> s.ReadTextFileResponse: ...
    @rpc("fs/write_text_file", gate="fs.write_text_file", timeout=ASKING)
    async def write_text_file(self, params: s.WriteTextFileRequest) -> s.WriteTextFileResponse: ...

    # Terminals

    @rpc("terminal/create", gate="terminal", timeout=ASKING)
    async def create_terminal(self, params: s.CreateTerminalRequest) -> s.CreateTerminalResponse: ...
    @rpc("terminal/output", gate="terminal", timeout=QUICK)
    async def terminal_output(self, params: s.TerminalOutputRequest) -> s.TerminalOutputResponse: ...
    @rpc("terminal/wait_for_exit", gate="terminal")
    async def wait_for_terminal_exit(
        self, params: s.WaitForTerminalExitRequest
    ) -> s.WaitForTerminalExitResponse: ...
    @rpc("terminal/kill", gate="terminal", timeout=QUICK)
    async def kill_terminal(self, params: s.KillTerminalRequest) -> s.KillTerminalResponse: ...
    @rpc("terminal/release", gate="terminal", timeout=QUICK)
    async def release_terminal(self, params: s.ReleaseTerminalRequest) -> s.ReleaseTerminalResponse: ...

    # Questions to the user

    @rpc("elicitation/create", gate="elicitation")
    async def create_elicitation(self, params: s.CreateElicitationRequest) -> s.CreateElicitationResponse: ...
    @rpc("elicitation/complete", gate="elicitation.url")
    def complete_elicitation(self, params: s.CompleteElicitationNotification) -> None: ...

    @rpc("auth/status_update", unstable=True)
    def auth_status_changed(self, params: s.AuthStatusUpdateNotification) -> None: ...

    # MCP over ACP, in both of its generations

    @rpc("mcp/message", unstable=True)
    async def message_mcp(self, params: AnyMcpRequest) -> Any: ...
    @rpc("mcp/message", unstable=True)
    def notify_mcp(self, params: s.ConnectionMcpNotification) -> None: ...
    @rpc("mcp/connect", unstable=True)
    async def connect_mcp(self, params: s.ConnectMcpRequest) -> s.ConnectMcpResponse: ...
    @rpc("mcp/disconnect", unstable=True)
    async def disconnect_mcp(self, params: s.DisconnectMcpRequest) -> s.DisconnectMcpResponse: ...

    # Proxy chains: what a proxy asks of its conductor

    @rpc("proxy/successor", unstable=True)
    async def request_to_successor(self, params: s.ProxySuccessorRequest) -> Any: ...
    @rpc("proxy/successor", unstable=True)
    def notification_to_successor(self, params: s.ProxySuccessorNotification) -> None: ...


class Wire(Protocol):
    """What a `Remote` needs of a connection."""

    async def call(self, method: Method, params: Any) -> Any: ...
    def note(self, method: Method, params: Any) -> None: ...
    def tell(self, method: Method, frame: bytes) -> None: ...
    def answer_early(self, key: int, result: Any) -> None: ...
    def after_answer(self, callback: Callable[[], None]) -> None: ...
    def interrupt(self, key: int) -> None: ...
    async def room(self) -> None: ...
    @property
    def closed(self) -> Exception | None: ...
    @property
    def is_full(self) -> bool: ...
    @property
    def answering(self) -> int: ...
    @property
    def newest(self) -> int: ...
    @property
    def request_id(self) -> s.RequestId: ...


class Remote(Role):
    """The peer at the other end of a wire, as an object: calling a method sends it."""

    offers: s.AgentCapabilities | s.ClientCapabilities  # its capabilities; none until it has told them

    def __init__(self, wire: Wire) -> None:
        self.wire = wire

    async def _request(self, method: Method, params: Any) -> Any:
        if method.gate:
            self.must_offer(method)
        return await self.wire.call(method, checked(method, params))

    def _notify(self, method: Method, params: Any) -> None:
        if method.gate:
            self.must_offer(method)
        self.wire.note(method, params)

    @overload
    async def request(self, name: str, params: object = None) -> Any: ...
    @overload
    async def request(self, name: str, params: object = None, result: type[T] = ...) -> T: ...
    @overload  # a type that is no class, such as a union
    async def request(self, name: str, params: object = None, result: Any = ...) -> Any: ...
    async def request(self, name: str, params: object = None, result: Any = Any) -> Any:
        """Call an extension of the protocol; `result` is the type that its answer is read as."""
        try:
            method = Method(name, Any, codec.readable(result))
        except TypeError as exc:
            raise TypeError(f"the result of {name} cannot be read: {exc}. {READABLE}") from None
        return await self.wire.call(method, {} if params is None else params)

    def notify(self, name: str, params: object = None) -> None:
        """Send a notification of an extension of the protocol."""
        self.wire.note(Method(name, Any, is_request=False), {} if params is None else params)

    async def room(self) -> None:
        """Wait until the wire takes more: whoever sends many notifications awaits this in between."""
        if self.wire.is_full:
            await self.wire.room()

    def must_offer(self, method: Method) -> None:
        """Raise NotOffered unless the peer has said that it answers a method."""
        if not offered(self.offers, method.gate):
            raise NotOffered(f"{method.name} needs the capability {method.gate}, which the peer does not offer")


class RemoteAgent(Remote, AgentRole):
    """An agent at the other end of a wire."""

    offers: s.AgentCapabilities = s.AgentCapabilities()


class RemoteClient(Remote, ClientRole):
    """A client at the other end of a wire."""

    offers: s.ClientCapabilities = s.ClientCapabilities()


def checked(method: Method, params: T) -> T:
    """The params of a request, if the peer will be able to read them; raises TypeError where they are sent."""
    if wrong := codec.unsendable(params, method.params):
        raise TypeError(f"this {method.name} cannot be sent: {wrong}")
    return params


def offered(capabilities: Any, path: str) -> bool:
    """Whether a capability is there: true, or an object; false, null and missing all mean no."""
    value = capabilities
    for name in path.split("."):
        value = getattr(value, name, None)
    return value is not None and value is not False


def methods(role: type[Any]) -> dict[str, Method]:
    """The methods of a role by their Python names, read off the signatures above."""
    found = {name: getattr(function, "forwards", None) for name, function in vars(role).items()}
    return {name: method for name, method in found.items() if method}


def overrides(handler: type, name: str) -> bool:
    """Whether a class answers a method itself instead of forwarding it."""
    return not hasattr(getattr(handler, name), "forwards")


def _extensions(handler: type) -> tuple[str, ...]:
    return tuple(name for name in dir(handler) if hasattr(getattr(handler, name, None), "extends"))
