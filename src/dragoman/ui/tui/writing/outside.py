"""The person's own programs, which take the terminal for a while: their editor, and an agent's login."""

import os
import shlex
import subprocess
import tempfile
from collections.abc import Mapping, Sequence

MAX_TEXT = 1024 * 1024  # characters that are read back


def edited(text: str) -> str | None:
    """The text after the person has edited it; None where their editor did not end well."""
    command = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    with tempfile.TemporaryDirectory(prefix="dragoman-prompt-") as directory:
        path = os.path.join(directory, "prompt.md")
        with open(path, "w") as out:
            out.write(text)
        if run_here([*command, path], os.environ):
            return None
        with open(path, errors="replace") as written:
            return written.read(MAX_TEXT).rstrip("\n")


def run_here(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a program at the person's terminal until it ends; gives its exit status."""
    try:
        return subprocess.run(command, env=environment, check=False).returncode
    except OSError:
        return 127
