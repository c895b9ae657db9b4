"""`dragoman audit [FILE…] [--verify]`: shows decisions and operations, and checks that the log is intact."""

import argparse
import sys

from .complaint import complain
from .values import Commands

NOT_WHOLE = 1


def add_to(commands: Commands) -> None:
    audit = commands.add_parser("audit", help="show agents' requests and the decisions about them")
    audit.add_argument("files", nargs="*", metavar="FILE", help="audit log, oldest file first (default: your own)")
    audit.add_argument("--verify", action="store_true", help="check that no record was changed, moved or removed")
    audit.set_defaults(command=_audit)


def _audit(arguments: argparse.Namespace) -> int:
    import os

    from ..host.audit import default_path, shown, verified

    if not arguments.files and not default_path().exists():
        return complain(f"nothing has been recorded yet: there is no log at {default_path()}")
    files = arguments.files or [default_path()]
    if missing := [file for file in files if not os.path.isfile(file)]:
        return complain(f"there is no log {str(missing[0])!r}")
    if not arguments.verify:
        sys.stdout.writelines(f"{line}\n" for line in shown(*files))
        return 0
    lines, is_whole = verified(*files)
    sys.stdout.writelines(f"{line}\n" for line in lines)
    return 0 if is_whole else NOT_WHOLE
