"""`dragoman gateway expire|verify|backup|export|import`: manages the stored sessions of a gateway."""

import argparse
import sys
from collections.abc import AsyncIterable, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeVar

from ...foundation.documents import Document, number
from .settings import KEPT, add_settings

if TYPE_CHECKING:
    from ...gateway.log.retention import Retention

T = TypeVar("T")
FAILED = 1


def add_to(action: Callable[..., argparse.ArgumentParser]) -> None:
    """Add the actions; `action` makes one from its name, function and help."""
    expire = action(
        "expire", _expire, "delete sessions that exceed a limit of age, number or size, for each principal"
    )
    add_settings(expire, KEPT)
    expire.add_argument("--principal", metavar="WHO", help="delete only sessions of this principal")
    expire.add_argument(
        "--dry-run", action="store_true", help="list sessions that would be deleted, and delete nothing"
    )
    action("verify", _verify, "check every record; exit with 1 if something is damaged")
    backup = action("backup", _back_up, "copy all sessions to a directory; the gateway may be running")
    backup.add_argument("directory", metavar="DIR", help="directory to copy to")
    exported = action("export", _export, "write sessions to stdout as JSON, one object per line")
    exported.add_argument("sessions", metavar="ID", nargs="*", help="sessions to export (default: all)")
    taken = action("import", _import, "import exported sessions, all or none; the gateway must not be running")
    taken.add_argument("file", metavar="FILE", help="exported sessions; - reads them from stdin")


def limits_of(arguments: argparse.Namespace) -> "Retention":
    from ...gateway.operations.offline import retention_of

    days, sessions, size = (getattr(arguments, setting.key, None) for setting in KEPT)
    return retention_of(days, sessions, size)


def _expire(arguments: argparse.Namespace, state: Path) -> int:
    import json

    from ...errors import Error
    from ...gateway.operations.offline import day

    if not (limits := limits_of(arguments)):
        raise Error("name a limit: --keep-days, --keep-sessions or --keep-bytes")
    gone = 0
    for one in _expired(arguments, state, limits):
        gone += 1
        print(json.dumps({**one, "updated": day(number(one["updated"]))}))
    print(f"{gone} session{'s' * (gone != 1)} {'would go' if arguments.dry_run else 'deleted'}", file=sys.stderr)
    return 0


def _expired(arguments: argparse.Namespace, state: Path, limits: "Retention") -> Iterator[Document]:
    """Let the running gateway do it; if none runs, do it here."""
    import asyncio

    import msgspec

    from ...errors import Error
    from ...gateway.operations.admin import AdminRequest, GatewayNotRunning, ask_admin
    from ...gateway.operations.offline import expire

    order = AdminRequest("expire", retention=limits, principal=arguments.principal, dry_run=arguments.dry_run)
    try:
        for line in ask_admin(state, order):
            said = msgspec.json.decode(line)
            if "error" in said:
                raise Error(said["error"])
            yield said
    except GatewayNotRunning:
        found = expire(state, limits, arguments.principal, is_dry=arguments.dry_run)
        yield from (msgspec.to_builtins(one) for one in asyncio.run(_gathered(found)))


async def _gathered(found: AsyncIterable[T]) -> list[T]:
    return [one async for one in found]


def _verify(arguments: argparse.Namespace, state: Path) -> int:
    from ...gateway.operations.checking import count_sessions, problems
    from ...ui.legible import one_line

    found = 0
    for session, problem in problems(state):
        found += 1
        print(one_line(f"{session}: {problem}" if session else problem))
    if found:
        return FAILED
    whole = count_sessions(state)
    print(f"{whole} session{'s' * (whole != 1)}, all whole")
    return 0


def _back_up(arguments: argparse.Namespace, state: Path) -> int:
    from ...gateway.operations.checking import back_up, problems

    target = Path(arguments.directory)
    back_up(state, target)
    return FAILED if any(problems(target)) else 0


def _export(arguments: argparse.Namespace, state: Path) -> int:
    import asyncio

    from ..complaint import complain

    damaged = asyncio.run(_write_out(state, arguments.sessions))
    if damaged:
        return complain(f"{damaged} records are damaged; they are named in their places", FAILED)
    return 0


async def _write_out(state: Path, sessions: list[str]) -> int:
    """Write sessions to stdout; returns the number of damaged records."""
    from ...gateway.operations.exchange import DAMAGED, exported
    from ...gateway.operations.offline import reading
    from ...ui.output import install

    stdout, _ = install()
    damaged = 0
    async with reading(state) as engine:
        for id in sessions or sorted([id async for (id,), _ in engine.facts("session")]):
            async for line in exported(engine, id):
                damaged += line.startswith(DAMAGED)
                stdout.write_bytes(line + b"\n")
    stdout.flush()
    return damaged


def _import(arguments: argparse.Namespace, state: Path) -> int:
    import asyncio

    from ...errors import Error
    from ...ui.output import OutputFailed
    from ..progress import watched

    try:
        with watched(arguments.file) as file:
            asyncio.run(_take_in(state, file))
    except OutputFailed:
        raise
    except OSError as exc:
        raise Error(f"{arguments.file} cannot be read: {exc.strerror}") from None
    return 0


async def _take_in(state: Path, source: BinaryIO) -> None:
    from ...gateway.operations.exchange import imported
    from ...gateway.operations.offline import stopped
    from ...store.exchange.exchange import readable_twice

    async with stopped(state, is_made=True) as engine:
        with readable_twice(source, state) as file:
            async for id in imported(engine, file):
                print(id)
