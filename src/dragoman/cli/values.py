"""Reads the values of options; a wrong value ends the command with one line."""

import argparse
import math
import os
import re
from typing import TYPE_CHECKING, TypeAlias, TypeVar

if TYPE_CHECKING:
    from ..schema import McpServer

Value = TypeVar("Value")
Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"  # where a command adds itself

PRESETS = ("ask", "allow-reads", "allow-edits", "allow-all", "deny")  # of permissions


def seconds(text: str) -> float:
    """A positive time."""
    return _checked(_number(text), _number(text) > 0, text, "a number of seconds")


def delay(text: str) -> float:
    """A time that may be 0."""
    return _checked(_number(text), _number(text) >= 0, text, "a number of seconds")


def days(text: str) -> float:
    return _checked(_number(text), _number(text) > 0, text, "a number of days")


def size(text: str) -> int:
    """A number of bytes, with or without a unit."""
    found = re.fullmatch(r"(\d+)([KMGT]?)", text.upper())
    number = int(found[1]) * 1024 ** " KMGT".index(found[2] or " ") if found else 0
    return _checked(number, number > 0, text, "a size such as 500M or 10G")


def terminal_size(text: str) -> tuple[int, int]:
    """Columns and rows of a terminal."""
    found = re.fullmatch(r"(\d{1,4})x(\d{1,4})", text)
    columns, rows = (int(found[1]), int(found[2])) if found else (0, 0)
    is_right = 2 <= columns <= 1000 and 2 <= rows <= 1000
    return _checked((columns, rows), is_right, text, "a size such as 120x40, up to 1000x1000")


def count(text: str) -> int:
    number = int(text) if text.isdecimal() else 0
    return _checked(number, number > 0, text, "a whole number above 0")


def limit(text: str, least: float, *, is_whole: bool) -> float:
    """A limit of a gateway with a minimum."""
    number = _number(text)
    is_right = number >= least and (not is_whole or number.is_integer())
    wanted = f"a {'whole ' if is_whole else ''}number of at least {least:g}"
    return _checked(int(number) if is_right and is_whole else number, is_right, text, wanted)


def port(text: str) -> int:
    number = int(text) if text.isdecimal() else -1
    return _checked(number, 0 <= number < 65536, text, "a port, a number below 65536")


def host_name(text: str) -> str:
    return _checked(text, bool(re.fullmatch(r"[^\s/]+", text)), text, "a name such as acp.example.com:443")


def hosts(text: str) -> list[str]:
    """Names of hosts, each with or without a port."""
    named = text.split(",")
    is_right = all(re.fullmatch(r"[\w.-]+(:\d{1,5})?|\[[0-9a-fA-F:.]+\](:\d{1,5})?", name) for name in named)
    return _checked(named, is_right, text, "hosts such as api.example.com,localhost:11434")


def mcp_server(text: str) -> "McpServer":
    """An MCP server for the agent: NAME=CMD starts one, NAME=URL names a running one."""
    import shlex

    from .. import schema as s
    from ..foundation.programs import find_program

    name, sign, way = text.partition("=")
    _checked(name, bool(name and sign and way.strip()), text, "NAME=CMD or NAME=URL")
    if way.startswith(("http://", "https://")):
        return s.McpServerHttp(name=name, url=way, headers=[])
    try:
        command, *args = shlex.split(way)
    except ValueError as exc:
        raise argparse.ArgumentTypeError(f"{text!r} has a command that cannot be read: {exc}") from None
    return s.McpServerStdio(name=name, command=find_program(command) or command, args=args, env=[])


def origin(text: str) -> str:
    return _checked(text, bool(re.fullmatch(r"\w+://[^\s/]+", text)), text, "an origin such as https://example.com")


def sha256(text: str) -> str:
    return _checked(text, bool(re.fullmatch(r"[0-9a-f]{64}", text)), text, "a SHA-256 in hexadecimal digits")


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        return math.nan
    return number if math.isfinite(number) else math.nan


def _checked(value: Value, is_right: bool, text: str, wanted: str) -> Value:
    if not is_right:
        raise argparse.ArgumentTypeError(f"{text!r} is not {wanted}")
    return value


def socket_path(listen: str) -> str:
    """The absolute path of a Unix socket, from `unix:PATH` or `unix://PATH`; empty for another address."""
    kind, mark, path = listen.partition(":")
    if kind != "unix" or not mark:
        return ""
    return os.path.abspath(path.removeprefix("//")) if path.strip("/") else ""


def socket_user(text: str) -> str:
    """A user of this machine, by name or number, and the principal, as written."""
    uid_and_principal(text)
    return text


def uid_and_principal(text: str) -> tuple[int, str]:
    from ..foundation.unix import pwd  # not every system has it

    user, _, principal = text.partition("=")
    try:
        uid = int(user) if user.isdecimal() else pwd.getpwnam(user).pw_uid
    except KeyError:
        raise argparse.ArgumentTypeError(f"there is no user {user!r} on this machine") from None
    return _checked((uid, principal), bool(user and principal), text, "USER=PRINCIPAL")
