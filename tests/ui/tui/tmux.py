"""A shell in a real terminal, which tmux emulates: keys go in, and what somebody would see comes out as text."""

import contextlib
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from patience import PATIENCE

PROMPT = "shell> "
LOOK = 0.05  # seconds between two looks at the screen
ARMED = 0.8  # seconds after which a question that is on the screen takes a key


class Terminal:
    """A terminal with a shell in it, on a tmux server of its own."""

    def __init__(self, place: str, cwd: Path, columns: int, rows: int, env: dict[str, str]) -> None:
        self._socket = os.path.join(place, "socket")
        self._env = {**os.environ, "LANG": "C.UTF-8", "TERM": "xterm-256color", **env}
        self._env.pop("TMUX", None)
        size = ["-x", str(columns), "-y", str(rows)]
        self._tmux("new-session", "-d", *size, "-c", str(cwd), f"env PS1='{PROMPT}' bash --norc --noprofile -i")
        self._tmux("set-option", "-g", "status", "off")
        self._tmux("set-option", "-g", "window-size", "manual")
        self._tmux("set-option", "-g", "set-clipboard", "on")
        self.resize(columns, rows)
        self.shows(PROMPT.strip())

    def _tmux(self, *words: str) -> str:
        command = ["tmux", "-f", "/dev/null", "-S", self._socket, *words]
        done = subprocess.run(command, env=self._env, capture_output=True, text=True, timeout=PATIENCE, check=True)
        return done.stdout

    @property
    def text(self) -> str:
        """What is on the screen."""
        return self._tmux("capture-pane", "-p")

    @property
    def raw(self) -> str:
        """The same with its colours."""
        return self._tmux("capture-pane", "-p", "-e")

    def shows(self, *words: str) -> str:
        """Wait until all of these words are on the screen; gives the screen."""
        return self._until(lambda text: all(word in text for word in words), f"{words} never shown")

    def gone(self, *words: str) -> str:
        """Wait until none of these words is on the screen."""
        return self._until(lambda text: not any(word in text for word in words), f"{words} never gone")

    def _until(self, is_so: Callable[[str], bool], what: str) -> str:
        end = time.monotonic() + PATIENCE
        while not is_so(text := self.text):
            assert time.monotonic() < end, f"{what}:\n{text}"
            time.sleep(LOOK)
        return text

    def press(self, *keys: str) -> None:
        """Press keys by tmux's names, such as `Enter`, `C-n`, `Escape`, `F7`."""
        for key in keys:
            self._tmux("send-keys", key)

    def type(self, text: str) -> None:
        """Type letters."""
        self._tmux("send-keys", "-l", text)

    def run(self, command: str) -> None:
        """Type a command into the shell."""
        self.type(command)
        self.press("Enter")

    def send(self, text: str) -> None:
        """Write a prompt and send it."""
        self.type(text)
        self.shows(text)
        self.press("Enter")

    def decide(self, key: str, *question: str) -> None:
        """Answer a question that is put."""
        self.shows(*question)
        time.sleep(ARMED)
        self.type(key)

    def resize(self, columns: int, rows: int) -> None:
        """Have another size."""
        self._tmux("resize-window", "-x", str(columns), "-y", str(rows))

    def resize_often(self, sizes: Sequence[tuple[int, int]]) -> None:
        """Have many sizes, one after the other without a pause."""
        orders = [["resize-window", "-x", str(columns), "-y", str(rows), ";"] for columns, rows in sizes]
        self._tmux(*(word for order in orders for word in order))

    def background(self, colour: str) -> None:
        """Have a background of this colour, which programs are told that ask."""
        self._tmux("set-option", "-g", "window-style", f"bg={colour}")

    def copied(self) -> str:
        """What a program has put into the clipboard."""
        return self._tmux("show-buffer")

    def rings(self) -> None:
        """Wait until a program has rung the bell."""
        end = time.monotonic() + PATIENCE
        while self.setting("window_bell_flag") != "1":
            assert time.monotonic() < end, f"no bell:\n{self.text}"
            time.sleep(LOOK)

    def setting(self, name: str) -> str:
        """What tmux knows of the terminal, such as `alternate_on`, `cursor_flag`, `mouse_any_flag`, `pane_tty`."""
        return self._tmux("display-message", "-p", f"#{{{name}}}").strip()

    def close(self) -> None:
        with contextlib.suppress(subprocess.CalledProcessError):
            pid = int(self.setting("pid"))
            self._tmux("kill-server")
            end = time.monotonic() + PATIENCE
            while os.path.exists(f"/proc/{pid}") and time.monotonic() < end:
                time.sleep(LOOK)


@contextlib.contextmanager
def terminal(
    cwd: Path, *, columns: int = 120, rows: int = 36, env: dict[str, str] | None = None
) -> Iterator[Terminal]:
    """A terminal for a test, which ends with it."""
    with tempfile.TemporaryDirectory(prefix="tmux-") as place:  # a socket's path has to be short
        there = Terminal(place, cwd, columns, rows, env or {})
        try:
            yield there
        finally:
            there.close()
