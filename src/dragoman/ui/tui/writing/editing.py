"""The person's own editor, for a longer prompt."""

import os
import shlex
import subprocess
import tempfile

MAX_TEXT = 1024 * 1024  # characters that are read back


def edited(text: str) -> str | None:
    """The text after the person has edited it; None where their editor did not end well."""
    command = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    with tempfile.TemporaryDirectory(prefix="dragoman-prompt-") as directory:
        path = os.path.join(directory, "prompt.md")
        with open(path, "w") as out:
            out.write(text)
        try:
            if subprocess.run([*command, path], check=False).returncode:
                return None
        except OSError:
            return None
        with open(path, errors="replace") as written:
            return written.read(MAX_TEXT).rstrip("\n")
