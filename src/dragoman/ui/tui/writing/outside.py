"""The user's programs, terminal and clipboard: an editor or a login takes over the screen for a while."""

import os
import shlex
import subprocess
import tempfile
from collections.abc import Mapping, Sequence

from ....foundation.programs import find_program
from ....foundation.unix import termios, tty

# The commands that print the picture on the clipboard, and the variable that such a desktop sets.
CLIPBOARDS = (
    ("WAYLAND_DISPLAY", ("wl-paste", "--no-newline", "--type", "image/png")),
    ("DISPLAY", ("xclip", "-selection", "clipboard", "-target", "image/png", "-out")),
    ("", ("pngpaste", "-")),
)
NO_PICTURE = "no picture is copied here; wl-paste, xclip or pngpaste has to be installed to look for one"
PNG = b"\x89PNG\r\n\x1a\n"
MAX_PICTURE = 5 * 1024 * 1024  # bytes
CLIPBOARD_PATIENCE = 5.0  # seconds to wait for the clipboard
MAX_TEXT = 1024 * 1024  # characters read back


def edited(text: str) -> str | None:
    """Open the text in the user's editor, and return the result; None if the editor failed."""
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
    """Run a program at the user's terminal until it ends, and return its exit status."""
    try:
        return subprocess.run(command, env=environment, check=False).returncode
    except OSError:
        return 127


def copied_picture() -> bytes | None:
    """The picture on the user's clipboard; None if there is none."""
    for variable, (program, *words) in CLIPBOARDS:
        if (variable and not os.environ.get(variable)) or (found := find_program(program)) is None:
            continue
        try:
            done = subprocess.run(
                [found, *words], capture_output=True, stdin=subprocess.DEVNULL, timeout=CLIPBOARD_PATIENCE
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.stdout.startswith(PNG) and len(done.stdout) <= MAX_PICTURE:
            return done.stdout
    return None


def show_drawing(drawn: bytes) -> None:
    """Show a picture, encoded for this terminal, until the user presses a key."""
    there = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    with open(there, "r+b", buffering=0) as terminal:
        before = termios.tcgetattr(there)
        try:
            tty.setcbreak(there)
            for part in (b"\x1b[2J\x1b[H", drawn, b"\r\n\r\nany key closes it"):
                while part:
                    part = part[terminal.write(part) or 0 :]
            terminal.read(1)
        finally:
            terminal.write(b"\x1b_Ga=d,q=2\x1b\\\x1b[2J\x1b[H")  # the first sequence removes kitty's pictures
            termios.tcsetattr(there, termios.TCSAFLUSH, before)
