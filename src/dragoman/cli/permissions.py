"""`dragoman permissions check FILE [COMMAND…]`: checks rules, and shows their decision about a command."""

import argparse
import os
import time
from typing import TYPE_CHECKING

from .complaint import complain
from .values import Commands

if TYPE_CHECKING:
    from ..host.operations import Operation
    from ..host.permissions.rules.matching import Circumstances
    from ..host.permissions.rules.rules import Rules


def add_to(commands: Commands) -> None:
    permissions = commands.add_parser("permissions", help="check a file of permission rules")
    actions = permissions.add_subparsers(title="actions", metavar="ACTION", required=True)
    check = actions.add_parser("check", help="show what the rules cover, and their decision about a command")
    check.add_argument("file", metavar="FILE", help="file of rules, such as .dragoman/permissions.toml")
    check.add_argument(
        "words",
        nargs=argparse.REMAINDER,
        metavar="COMMAND",
        help="command to judge; a single argument with spaces is a shell command",
    )
    check.add_argument(
        "--cwd", default=".", metavar="DIR", help="workspace of the command (default: this directory)"
    )
    check.add_argument("--agent", default="", metavar="NAME", help="agent that would run it (default: none)")
    check.add_argument("--read", metavar="PATH", help="judge reading a file instead of a command")
    check.add_argument("--write", metavar="PATH", help="judge writing a file instead of a command")
    check.set_defaults(command=_check)


def _check(arguments: argparse.Namespace) -> int:
    from ..host.permissions.rules.explaining import covered
    from ..host.permissions.rules.matching import Circumstances
    from ..host.permissions.rules.rules import Rules, user_file

    if not os.path.isfile(arguments.file):
        return complain(f"there is no file {arguments.file!r}")
    is_own = os.path.realpath(arguments.file) == os.path.realpath(user_file())
    rules = Rules.load(arguments.file) if is_own else Rules.load(None, arguments.file, lambda *known: True)
    cwd = os.path.realpath(arguments.cwd)
    operation = _operation(arguments, cwd)
    if operation is None:
        for rule in rules.rules:
            print(f"{rule.where}: {rule.effect} {covered(rule)}")
        counted = f"{len(rules.rules)} rule{'' if len(rules.rules) == 1 else 's'}"
        print(f"{counted}; deny beats ask beats allow, and the preset decides on everything else")
        return 0
    _judge(rules, operation, Circumstances(cwd, arguments.agent, time.time()))
    return 0


def _operation(arguments: argparse.Namespace, cwd: str) -> "Operation | None":
    from ..host.operations import Execute, FileRead, FileWrite

    if arguments.read is not None:
        return FileRead(path=os.path.realpath(os.path.join(cwd, arguments.read)))
    if arguments.write is not None:
        return FileWrite(path=os.path.realpath(os.path.join(cwd, arguments.write)), digest="unknown")
    words = arguments.words[1:] if arguments.words[:1] == ["--"] else arguments.words
    if not words:
        return None
    if len(words) == 1 and len(words[0].split()) > 1:
        return Execute(argv=("/bin/sh", "-c", words[0]), cwd=cwd, shell=True)
    return Execute(argv=tuple(words), cwd=cwd)


def _judge(rules: "Rules", operation: "Operation", place: "Circumstances") -> None:
    from ..host.permissions import scrutiny
    from ..host.permissions.rules.explaining import covered, rules_about

    roots = [place.workspace] if place.workspace else []
    verdict = scrutiny.judged(rules, [operation], place, roots, ())
    for doubt in scrutiny.doubts(operation, ()):
        print(f"asked about whatever the rules say: {doubt}")
    for rule, relevance in rules_about(rules, operation, place):
        print(f"{rule.where}: {relevance} about this: {rule.effect} {covered(rule)}")
    if verdict is None:
        print("no rule: the preset decides, or the user is asked")
    else:
        print(f"{verdict.effect}: {verdict.rule.where}{f': {verdict.why}' if verdict.why else ''}")
