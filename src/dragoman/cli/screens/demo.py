"""`dragoman demo`: a real turn of a real agent on a sample project, without a key or a network."""

import argparse
import os
import sys

from ..values import Commands


def add_to(commands: Commands) -> None:
    demo = commands.add_parser("demo", help="review and repair a sample project; needs no model and no network")
    told = "at a terminal, talk to the agent on a screen (needs the extra tui)"
    demo.add_argument("--screen", action="store_true", help=told)
    demo.set_defaults(command=_demo)


def _demo(arguments: argparse.Namespace) -> int:
    import tempfile
    from pathlib import Path

    from ...reviewer.samples import copy_sample
    from .. import main
    from .tui import is_installed

    # The user is asked about each change on a terminal; elsewhere changes are allowed: this is a copy.
    preset = "allow-reads" if sys.stdin.isatty() and sys.stderr.isatty() else "allow-all"
    with tempfile.TemporaryDirectory(prefix="dragoman-demo-") as directory:
        project = Path(directory, "shop")
        copy_sample(project)
        os.environ["XDG_STATE_HOME"] = os.path.join(directory, "state")  # nothing of it should remain
        _tell(f"The reviewer repairs a sample project, copied to {project}.\n")
        agent = "dragoman agent reviewer"  # by its command: the user may have given its name to another agent
        if arguments.screen and sys.stdin.isatty() and sys.stdout.isatty() and is_installed():
            return main(["tui", "--cwd", str(project), "--agent", agent, "--permissions", preset])
        code = main(["run", "--cwd", str(project), "--agent", agent, "--permissions", preset, "/fix"])
    print(file=sys.stderr)
    _tell("To review your own project:\n  dragoman run --agent reviewer --permissions allow-reads /review")
    return code


def _tell(words: str) -> None:
    from ...ui.layout import wrapped
    from ...ui.style import size_of

    columns, _ = size_of(sys.stderr)
    for line in words.split("\n"):
        print("\n".join(wrapped(line, columns)), file=sys.stderr)
