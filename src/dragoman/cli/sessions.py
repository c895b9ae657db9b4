"""`dragoman sessions …`: manages the sessions stored on this machine."""

import argparse
import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, BinaryIO

from .complaint import complain
from .values import Commands

if TYPE_CHECKING:
    from ..errors import RpcError
    from ..store.database.database import Database

FAILED = 1
EXITS = "exit codes: 0 done, 1 the session is damaged, in use or missing, 64 wrong usage"


def add_to(commands: Commands) -> None:
    words = "list, show, export, import, verify and delete stored sessions"
    sessions = commands.add_parser("sessions", help=words, epilog=EXITS)
    actions = sessions.add_subparsers(title="actions", metavar="ACTION", required=True)

    def action(name: str, run: Callable[..., int], words: str) -> argparse.ArgumentParser:
        parser = actions.add_parser(name, help=words, epilog=EXITS)
        parser.add_argument(
            "--store",
            metavar="PATH",
            help="directory of the store (default: your own, in XDG_STATE_HOME)",
        )
        parser.set_defaults(command=run)
        return parser

    listing = action("list", _list, "list sessions, newest first")
    listing.add_argument("--json", action="store_true", help="print JSON, one object per line")
    shown = action("show", _show, "print the conversation of a session")
    shown.add_argument("session", metavar="ID", help="id of the session")
    exported = action("export", _export, "write a session to stdout as JSON, one object per line")
    exported.add_argument("session", metavar="ID", help="id of the session")
    taken = action("import", _import, "import an exported session, completely or not at all, and print its id")
    taken.add_argument("file", metavar="FILE", help="exported session; - reads it from stdin")
    taken.add_argument("--id", metavar="ID", help="id for the imported session (default: its own)")
    action("verify", _verify, "check every page and record; exit with 1 if something is damaged")
    deleted = action("delete", _delete, "delete sessions and erase their bytes")
    deleted.add_argument("sessions", metavar="ID", nargs="+", help="ids of the sessions")


def _with_store(
    work: "Callable[[Database, argparse.Namespace], int]", *, is_made: bool = False
) -> Callable[[argparse.Namespace], int]:
    """Wraps a command that opens a store; damage is reported in one line."""

    def command(arguments: argparse.Namespace) -> int:
        from pathlib import Path

        from ..errors import RpcError
        from ..store.database.database import Database
        from ..store.places import default_path, is_store
        from ..ui.output import OutputFailed

        path = Path(arguments.store) if arguments.store else default_path()
        if not is_store(path) and not is_made:
            return complain(f"there is no store at {path}; name one with --store")
        try:
            with contextlib.closing(Database(path)) as db:
                return work(db, arguments)
        except RpcError as exc:
            return complain(_in_words(exc), FAILED)
        except (BrokenPipeError, OutputFailed):
            raise
        except Exception as exc:  # every effect of damage is reported in one line
            return complain(f"the store at {path} cannot be used: {exc or type(exc).__name__}", FAILED)

    return command


def _in_words(exc: "RpcError") -> str:
    data = exc.data if isinstance(exc.data, dict) else {}
    reason = f"({data['reason']})" if "reason" in data else ""
    return " ".join(filter(None, (exc.message, data.get("sessionId", ""), reason)))


@_with_store
def _list(db: "Database", arguments: argparse.Namespace) -> int:
    import json
    import sys

    from ..ui.layout import in_columns
    from ..ui.legible import one_line
    from ..ui.style import Style, size_of

    rows = []
    for summary in sorted(db.listed(), key=lambda summary: -summary.head.updated):
        head = summary.head
        if arguments.json:
            fields = {"sessionId": summary.id, "agent": head.agent, "cwd": head.cwd, "title": head.title}
            times = {"updatedAt": _time(head.updated), "archived": head.archived, "prompts": head.prompts}
            print(json.dumps(fields | times | {"lines": head.last, "suspect": summary.suspect}))
        else:
            marks = "archived " * head.archived + "DAMAGED " * bool(summary.suspect)
            said = f"{head.prompts:4} prompt{'s' * (head.prompts != 1)}"
            about = f"{one_line(marks + (head.title or '(nothing said)'))}  {one_line(head.cwd)}"
            rows.append([one_line(summary.id), _time(head.updated), said, about])
    colours = [["bold", "dim", "dim", ""]] * len(rows)
    for line in in_columns(rows, colours, Style.of(sys.stdout), size_of(sys.stdout)[0]):
        print(line)
    return 0


@_with_store
def _show(db: "Database", arguments: argparse.Namespace) -> int:
    from ..store.telling import told
    from ..ui.legible import legible

    summary = db.found(arguments.session)
    if summary.suspect:
        complain(f"{summary.id}: {summary.suspect}")
    for paragraph in told(db.lines(summary.id, summary.head.last)):
        print(legible(paragraph), end="\n\n")
    return 0


@_with_store
def _export(db: "Database", arguments: argparse.Namespace) -> int:
    from ..store.exchange.exchange import DAMAGED, exported
    from ..ui.output import install

    stdout, _ = install()
    damaged = 0
    for line in exported(db, arguments.session):
        damaged += line.startswith(DAMAGED)
        stdout.write_bytes(line + b"\n")
    stdout.flush()
    if damaged:
        return complain(f"{arguments.session} is damaged; missing parts are named in place", FAILED)
    return 0


def _import(arguments: argparse.Namespace) -> int:
    from ..ui.output import OutputFailed
    from .progress import watched

    try:
        with watched(arguments.file) as file:
            return _taken(file)(arguments)
    except OutputFailed:
        raise
    except OSError as exc:
        return complain(f"{arguments.file} cannot be read: {exc.strerror}")


def _taken(source: BinaryIO) -> Callable[[argparse.Namespace], int]:
    def work(db: "Database", arguments: argparse.Namespace) -> int:
        from ..store.exchange.exchange import imported
        from ..ui.legible import one_line

        print(one_line(imported(db, source, arguments.id)))
        return 0

    return _with_store(work, is_made=True)


@_with_store
def _verify(db: "Database", arguments: argparse.Namespace) -> int:
    from ..ui.legible import one_line

    problems = 0
    for session, problem in db.verify():
        problems += 1
        print(one_line(f"{session}: {problem}" if session else problem))
    if not problems:
        count = len(db.listed())
        print(f"{count} session{'s' * (count != 1)}, all whole")
    return FAILED if problems else 0


@_with_store
def _delete(db: "Database", arguments: argparse.Namespace) -> int:
    import operator

    from ..errors import RpcError
    from ..store.database.thread import attempted

    code = 0
    for session in arguments.sessions:
        try:
            if not attempted(db, operator.methodcaller("delete", session)):
                code = complain(f"there is no session {session}; nothing of it is left either", FAILED)
        except RpcError as exc:
            code = complain(_in_words(exc), FAILED)
    return code


def _time(milliseconds: int) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
