"""Hides some files and all outside processes from programs; bubblewrap shows them everything else as it is.

This is weaker than `isolation.py`, so that any agent runs in it: home, network and toolchains are the user's own.
Hidden directories and files are empty inside; a directory below a hidden one can be shown again.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ...foundation.places import is_beneath
from ...foundation.programs import find_program

PATIENCE = 10.0  # seconds for the trial
PROCESSES = 2  # bubblewrap's own processes around a program
# Capabilities by which root could remove the mounts, inspect other processes, or read the disk below the files.
TAKEN = ("SYS_ADMIN", "SYS_PTRACE", "SYS_MODULE", "SYS_RAWIO", "SYS_BOOT", "MKNOD", "DAC_READ_SEARCH")
PROCESS_IDS = "/proc/self/ns/pid"  # a link to the name of the namespace
# Prints that name, and what can be seen of each path: of a directory its entries, of a file its content.
TRIAL = f'readlink {PROCESS_IDS}; for path; do if [ -d "$path" ]; then ls -A "$path"; else cat "$path"; fi; done'


class CannotHide(Exception):
    """The files cannot be hidden; the text says why."""


class Hidden(NamedTuple):
    """The real paths that a program must not see, except those in `shown`."""

    paths: Sequence[str]
    shown: Sequence[str] = ()


class Hiding:
    """Wraps commands so that they do not see some files."""

    def __init__(self, hidden: Hidden) -> None:
        self._hidden = hidden
        self._bwrap = find_program("bwrap")
        self._setsid = find_program("setsid")

    def command(self, argv: Sequence[str], *, interactive: bool = False) -> list[str]:
        """The command that wraps another one; with `interactive`, only the inner command gets the terminal."""
        if self._bwrap is None:
            raise CannotHide("bubblewrap is not installed (package bubblewrap)")
        if interactive:
            if self._setsid is None:
                raise CannotHide("setsid is not installed (package util-linux)")
            argv = [self._setsid, "--ctty", *argv]
        return [self._bwrap, *self._arguments(), "--", *argv]

    def _arguments(self) -> list[str]:
        emptied = list[str]()
        words = ["--dev-bind", "/", "/", "--unshare-pid", "--proc", "/proc", "--die-with-parent"]
        if os.geteuid() == 0:
            words += [word for name in TAKEN for word in ("--cap-drop", f"CAP_{name}")]
        shown = [path for path in self._hidden.shown if any(is_beneath(path, one) for one in self._hidden.paths)]
        for path in sorted({*self._hidden.paths, *shown}, key=lambda path: path.count("/")):
            if path in shown:
                words += ["--bind", path, path]
            elif os.path.isdir(path):
                words += ["--perms", "0755", "--tmpfs", path]
                emptied += ["--remount-ro", path]
            elif os.path.lexists(path):
                words += ["--ro-bind", os.devnull, path]
        return words + emptied

    async def check(self) -> None:
        """Try it once; raises CannotHide if a hidden file can be seen."""
        if sys.platform != "linux":
            raise CannotHide("this system has no bubblewrap: it needs Linux")
        there = filter(os.path.lexists, self._hidden.paths)  # others may be made before a program starts
        empty = [path for path in there if not any(is_beneath(one, path) for one in self._hidden.shown)]
        trial = self.command(["/bin/sh", "-c", TRIAL, "sh", *empty])
        try:
            done = await asyncio.to_thread(
                subprocess.run,
                trial,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=PATIENCE,
                check=False,
                encoding="utf-8",
                errors="replace",
                env={"PATH": "/usr/bin:/bin"},
            )
        except (OSError, subprocess.TimeoutExpired) as exc:
            raise CannotHide(f"bubblewrap cannot be run: {exc}") from exc
        namespace, _, seen = done.stdout.partition("\n")
        if done.returncode or not namespace:
            raise CannotHide(done.stderr.strip().partition("\n")[0] or f"bubblewrap ends with {done.returncode}")
        if seen or namespace == os.readlink(PROCESS_IDS):
            raise CannotHide("bubblewrap hides nothing here")


def hidden_place(path: str, needed: Iterable[str]) -> str:
    """The path to hide for a file: its directory, so that a file that replaces it is hidden, too.

    If programs need other files in the directory, the file alone.
    """
    real = os.path.realpath(path)
    above = os.path.dirname(real)
    return real if any(is_beneath(one, above) or is_beneath(above, one) for one in needed) else above
