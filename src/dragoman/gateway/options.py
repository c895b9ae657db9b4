"""The options of a served gateway."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from .access.limits import Limits
from .agents.upstream import Hosted
from .log.retention import Retention
from .log.session_facts import Detached

if TYPE_CHECKING:
    from .access.signed import SignedTokens


class ServeOptions(Struct, kw_only=True):
    """The agents to serve, the address, and the access rules."""

    agents: Mapping[str, Hosted]
    state: Path
    host: str = "127.0.0.1"
    port: int = 0
    path: str = ""  # the path of a Unix socket, instead of host and port
    socket_group: str = ""  # the group that may open it, besides the gateway's user
    socket_users: Mapping[int, str] = {}  # principals by uid; if empty, each user is the principal with their name
    tokens: Path | None = None
    is_open: bool = False  # no credentials are required; only on this machine
    tls: tuple[str, str] | None = None
    client_ca: str | None = None
    signed: "SignedTokens | None" = None
    names: Sequence[str] = ()
    origins: Sequence[str] = ()
    proxies: Sequence[str] = ()  # networks of reverse proxies whose X-Forwarded-For counts
    proxy_protocol: bool = False  # their connections begin with a PROXY protocol header
    workspace: str | None = None
    mcp_commands: Sequence[str] = ()
    limits: Limits = Limits()
    detached: Detached = Detached()
    retention: Retention = Retention()
    engine: str = ""  # where logs are kept: the address of NATS; without one a file in the state
    level: Literal["process", "power"] = "power"
    takes_over: bool = False  # from the process that now serves this state
    drain: float = 3.0  # seconds for turns to finish when the gateway is told to stop
