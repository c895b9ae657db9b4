"""Every setting of `dragoman serve`, one row each.

The flags, the keys of `gateway.toml`, their help and the reference in the documentation are made from these rows.
"""

import argparse
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from ..values import (
    PRESETS,
    count,
    days,
    delay,
    host_name,
    hosts,
    limit,
    origin,
    seconds,
    sha256,
    size,
    socket_user,
)

Shape = Literal["one", "many", "switch"]
LIMITS = "limits."  # the prefix of the limits' keys, which are a table of the file
LIMIT_FLAG = "--limit"


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A flag and the file's key with the same meaning."""

    key: str
    help: str
    metavar: str | tuple[str, ...] = ""  # several: the flag takes this many values
    read: Callable[[str], object] = str
    default: object = None
    alone: str | None = None  # the meaning of the flag without a value; None: it needs one
    told: str = ""  # a description of the default, if the value does not show it
    choices: Sequence[str] = ()
    shape: Shape = "one"
    flag: str = ""
    older_flag: str = ""  # still works, but is not shown
    reloads: bool = False  # SIGHUP applies a new value

    @property
    def option(self) -> str:
        """The name on the command line; empty for a setting of only the file and `--limit`."""
        return self.flag or ("" if self.key.startswith(LIMITS) else "--" + self.key.replace("_", "-"))

    @property
    def words(self) -> str:
        """The help text, which ends with the default."""
        default = self.told or (_shown(self.default) if self.shape == "one" else "")
        return f"{self.help} (default: {default})" if default else self.help


def _shown(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value or "")


WHERE = (
    Setting(
        key="agent",
        shape="many",
        metavar="NAME=CMD",
        help="agent to host; may be repeated",
        told="coder",
    ),
    Setting(key="listen", default="127.0.0.1:8765", metavar="HOST:PORT", help="address to listen on, or unix:PATH"),
    Setting(key="state", metavar="DIR", help="directory for sessions, tokens and logs", told="in XDG_STATE_HOME"),
)
ACCESS = (
    Setting(key="token_file", metavar="FILE", help="file that holds the tokens (see: dragoman gateway tokens)"),
    Setting(
        key="socket_group", metavar="GROUP", help="group that may open the Unix socket", told="its owner alone may"
    ),
    Setting(
        key="socket_user",
        shape="many",
        read=socket_user,
        metavar="USER=PRINCIPAL",
        help="user who needs no token at the Unix socket, and the principal they are; may be repeated",
        told="each user of this machine, under their name",
    ),
    Setting(
        key="no_auth", shape="switch", default=False, help="require no token; allowed on loopback addresses only"
    ),
    Setting(
        key="tls",
        metavar=("CERT", "KEY"),
        help="serve over TLS; required unless the address is loopback",
        reloads=True,
    ),
    Setting(key="client_ca", metavar="FILE", help="accept clients with a certificate of this authority"),
    Setting(key="jwt", metavar=("ISSUER", "AUDIENCE", "JWKS"), help="accept tokens signed by this issuer"),
    Setting(
        key="host",
        shape="many",
        read=host_name,
        metavar="NAME",
        help="host name and port that clients use, where it differs from --listen",
        reloads=True,
    ),
    Setting(
        key="origin",
        shape="many",
        read=origin,
        metavar="ORIGIN",
        help="origin of a web page that may connect",
        reloads=True,
    ),
)
PROXIES = (
    Setting(
        key="trusted_proxy",
        shape="many",
        metavar="NETWORK",
        help="address or network of a reverse proxy whose X-Forwarded-For counts; may be repeated",
        told="none",
    ),
    Setting(
        key="proxy_protocol",
        shape="switch",
        default=False,
        help="connections of trusted proxies begin with a header of the PROXY protocol",
    ),
)
WORKSPACE = (
    Setting(
        key="workspace",
        metavar="DIR",
        help="directory that sessions are confined to; may contain {principal}",
        told=".",
    ),
    Setting(
        key="lend",
        choices=("host", "client"),
        default="host",
        help="lend agents the files and terminals of this host, or of the client",
    ),
    Setting(key="permissions", choices=PRESETS, default=PRESETS[0], help="what agents may do without asking"),
    Setting(
        key="sandbox",
        shape="switch",
        default=False,
        help="run the agents' commands in a sandbox; refuse them where there is none",
    ),
    Setting(
        key="isolate",
        choices=("gateway", "full", "off"),
        default="gateway",
        alone="full",
        metavar="LEVEL",
        help="gateway: agents see neither the gateway's files nor other principals' workspaces, where the system "
        "can hide them; full (--isolate alone): each agent and its commands run in a sandbox around its workspace; "
        "off: agents see what the gateway sees",
    ),
    Setting(
        key="pass_env",
        shape="many",
        metavar="NAME",
        help="variable that agents get besides the usual ones (PATH, HOME, ...), * stands for any letters; may be "
        "repeated",
        told="all that are not the gateway's own",
    ),
    Setting(key="visible", shape="many", metavar="PATH", help="further path that isolated agents may read"),
    Setting(
        key="network",
        read=hosts,
        metavar="HOST,...",
        help="hosts that isolated agents may connect to",
        told="none",
    ),
)
SESSIONS = (
    Setting(
        key="process_per",
        choices=("principal", "session"),
        default="principal",
        help="one agent process for all sessions of a principal, or one for each session",
    ),
    Setting(
        key="mcp_command",
        shape="many",
        read=sha256,
        metavar="HASH",
        help="hash of an MCP server's command, arguments and environment that clients may start",
        reloads=True,
    ),
    Setting(
        key="limits.sessions_each",
        flag="--max-sessions",
        read=count,
        default=100,
        metavar="N",
        help="open sessions a principal may have",
        reloads=True,
    ),
    Setting(
        key="limits.turn_seconds",
        flag="--max-turn",
        read=seconds,
        default=3600.0,
        metavar="SECONDS",
        help="longest time a turn may take",
        reloads=True,
    ),
    Setting(
        key="detached",
        read=delay,
        metavar="SECONDS",
        help="cancel a turn that nobody has watched for this long",
        told="never",
        reloads=True,
    ),
    Setting(
        key="drain",
        read=delay,
        default=3.0,
        metavar="SECONDS",
        help="how long running turns may continue after the gateway is told to stop",
        reloads=True,
    ),
    Setting(
        key="durability",
        choices=("power", "process"),
        default="power",
        help="what a record survives: a power cut, or the process's end",
    ),
)
KEPT = (
    Setting(
        key="keep_days",
        read=days,
        metavar="N",
        help="keep sessions used in the last N days",
        told="all",
        reloads=True,
    ),
    Setting(
        key="keep_sessions",
        read=count,
        metavar="N",
        help="keep the N sessions each principal used last",
        told="all",
        reloads=True,
    ),
    Setting(
        key="keep_bytes",
        read=size,
        metavar="SIZE",
        help="keep SIZE of each principal's logs, such as 10G",
        told="all",
        reloads=True,
    ),
)
LOGS = (
    Setting(
        key="log_format",
        older_flag="--log",
        choices=("text", "json"),
        default="text",
        help="format of the log on stderr",
        reloads=True,
    ),
    Setting(
        key="access_log",
        shape="switch",
        default=False,
        help="also log a line for each request: who, what, how it ended, milliseconds",
        reloads=True,
    ),
)
SETTINGS = (*WHERE, *ACCESS, *PROXIES, *WORKSPACE, *SESSIONS, *KEPT, *LOGS)


def all_settings() -> Sequence[Setting]:
    """The table, with a row for each limit without a flag of its own."""
    from ...gateway.access.limits import limit_rows

    known = {setting.key for setting in SETTINGS}
    limits = (
        Setting(
            key=LIMITS + row.name,
            read=_at_least(row.least, is_whole=row.is_whole),
            default=int(row.default) if row.is_whole else row.default,
            metavar="N",
            help=row.words,
            reloads=True,
        )
        for row in limit_rows()
    )
    return (*SETTINGS, *(setting for setting in limits if setting.key not in known))


def _at_least(least: float, *, is_whole: bool) -> Callable[[str], object]:
    def read(text: str) -> float:
        return limit(text, least, is_whole=is_whole)

    return read


def add_settings(parser: argparse.ArgumentParser, settings: Iterable[Setting] = SETTINGS) -> None:
    """Add the flags; flags that are not given leave no value, so that the file's values count."""
    for setting in settings:
        _add(parser, setting, setting.option, setting.words.replace("%", "%%"))
        if setting.older_flag:
            _add(parser, setting, setting.older_flag, argparse.SUPPRESS)


def add_limit(parser: argparse.ArgumentParser) -> None:
    """Add the flag that sets any limit."""
    parser.add_argument(
        LIMIT_FLAG,
        action="append",
        default=[],
        metavar="NAME=N",
        help="set a limit by its name; dragoman gateway config show lists them",
    )


def _add(parser: argparse.ArgumentParser, setting: Setting, flag: str, words: str) -> None:
    add = parser.add_argument
    if setting.shape == "switch":
        add(flag, dest=setting.key, action="store_true", default=argparse.SUPPRESS, help=words)
    elif isinstance(setting.metavar, tuple):
        places = setting.metavar
        add(
            flag,
            dest=setting.key,
            nargs=len(places),
            metavar=places,
            default=argparse.SUPPRESS,
            help=words,
        )
    else:
        add(
            flag,
            dest=setting.key,
            action="append" if setting.shape == "many" else "store",
            nargs=None if setting.alone is None else "?",
            const=setting.alone,
            type=setting.read,
            choices=setting.choices or None,
            metavar=setting.metavar or None,
            default=argparse.SUPPRESS,
            help=words,
        )
