"""`dragoman sessions …`: the sessions that are kept on this machine."""

import argparse
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .complaint import complain

if TYPE_CHECKING:
    from ..store.database import Database

DAMAGED = 1


def add_to(commands: Any) -> None:
    sessions = commands.add_parser("sessions", help="list, show, export, import, verify and delete stored sessions")
    actions = sessions.add_subparsers(title="actions", metavar="ACTION", required=True)

    def action(name: str, run: Callable[..., int], words: str) -> Any:
        parser = actions.add_parser(name, help=words)
        parser.add_argument(
            "--store",
            metavar="PATH",
            help="the directory of the store (default: the user's own, in XDG_STATE_HOME)",
        )
        parser.set_defaults(command=_with_store(run))
        return parser

    listing = action("list", _list, "one line a session, the newest first")
    listing.add_argument("--json", action="store_true", help="as JSON, one object a line")
    shown = action("show", _show, "print a session as it was said")
    shown.add_argument("session", metavar="ID")
    exported = action("export", _export, "write a session to stdout, one JSON object a line")
    exported.add_argument("session", metavar="ID")
    taken = action("import", _import, "take an exported session in; prints its id")
    taken.add_argument("file", metavar="FILE", help="the exported session; - reads it from stdin")
    taken.add_argument("--id", metavar="ID", help="the id to give it (default: its own)")
    action("verify", _verify, "look at every record; exits with 1 when something is damaged")
    deleted = action("delete", _delete, "forget sessions for good, so that none of their bytes is left")
    deleted.add_argument("sessions", metavar="ID", nargs="+")


def _with_store(run: Callable[..., int]) -> Callable[[argparse.Namespace], int]:
    def command(arguments: argparse.Namespace) -> int:
        import sqlite3
        from pathlib import Path

        from ..errors import RpcError
        from ..store.database import Database
        from ..store.places import default_path

        path = Path(arguments.store) if arguments.store else default_path()
        if not path.is_dir() and run is not _import:
            return complain(f"there is no store at {path}; name one with --store")
        try:
            db = Database(path)
            try:
                return run(db, arguments)
            finally:
                db.close()
        except RpcError as exc:
            detail = exc.data.get("sessionId", "") if isinstance(exc.data, dict) else ""
            reason = exc.data.get("reason", "") if isinstance(exc.data, dict) else ""
            return complain(" ".join(filter(None, (exc.message, detail, f"({reason})" if reason else ""))), DAMAGED)
        except (sqlite3.Error, OSError) as exc:
            return complain(f"the store at {path} cannot be used: {exc}", DAMAGED)

    return command


def _list(db: "Database", arguments: argparse.Namespace) -> int:
    import json

    for summary in sorted(db.summaries(), key=lambda summary: -summary.head.updated):
        head = summary.head
        if arguments.json:
            fields = {"sessionId": summary.id, "agent": head.agent, "cwd": head.cwd, "title": head.title}
            times = {"updatedAt": _time(head.updated), "archived": head.archived, "prompts": head.prompts}
            print(json.dumps(fields | times | {"lines": head.last, "suspect": summary.suspect}))
        else:
            marks = "archived " * head.archived + "DAMAGED " * bool(summary.suspect)
            said = f"{head.prompts:4} prompt{'s' * (head.prompts != 1)}"
            about = f"{marks}{head.title or '(nothing said)'}  {head.cwd}".replace("\n", " ")
            print(f"{summary.id}  {_time(head.updated)}  {said}  {_visible(about)}")
    return 0


def _show(db: "Database", arguments: argparse.Namespace) -> int:
    from ..store.telling import told

    summary = db.summary(arguments.session)
    if summary.suspect:
        complain(f"{summary.id}: {summary.suspect}")
    for paragraph in told(db.lines(summary.id, summary.head.last)):
        print(_visible(paragraph), end="\n\n")
    return 0


def _export(db: "Database", arguments: argparse.Namespace) -> int:
    from ..store.exchange import exported

    for line in exported(db, arguments.session):
        sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()
    return 0


def _import(db: "Database", arguments: argparse.Namespace) -> int:
    from ..store.exchange import imported

    if arguments.file == "-":
        print(imported(db, sys.stdin.buffer, arguments.id))
        return 0
    with open(arguments.file, "rb") as file:
        print(imported(db, file, arguments.id))
    return 0


def _verify(db: "Database", arguments: argparse.Namespace) -> int:
    problems = 0
    for session, problem in db.verify():
        problems += 1
        print(f"{session}: {problem}" if session else problem)
    if not problems:
        count = sum(1 for _ in db.summaries())
        print(f"{count} session{'s' * (count != 1)}, all whole")
    return DAMAGED if problems else 0


def _delete(db: "Database", arguments: argparse.Namespace) -> int:
    missing = [session for session in arguments.sessions if not db.delete(session)]
    for session in missing:
        complain(f"there is no session {session}; nothing of it is left either")
    return DAMAGED if missing else 0


def _time(milliseconds: int) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _visible(text: str) -> str:
    """Without anything a terminal would obey."""
    return "".join(char if char.isprintable() or char == "\n" else "\N{REPLACEMENT CHARACTER}" for char in text)
