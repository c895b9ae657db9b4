"""The terminal screen at a terminal of its own: how soon it is there, and how soon a key shows while it is busy.

python screen.py [ROUNDS]      the medians of so many starts; then one long stream and one long stored session

What the screen writes goes to an emulator in this process: a key counts as shown once the emulator shows it.
"""

import codecs
import fcntl
import os
import pty
import select
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median, quantiles

from dragoman.foundation.terminal.emulator import TerminalEmulator

COLUMNS, ROWS = 120, 36
PATIENCE = 300.0  # seconds
CHUNKS, RATE, ENTRIES = 10_000, 2000, 50_000
PAUSE = 0.07  # seconds between two keys
AGENT = shlex.join([sys.executable, str(Path(__file__).with_name("screen_agent.py")), str(ENTRIES)])


class ScreenRun:
    """The program at a terminal."""

    def __init__(self, *arguments: str, home: str) -> None:
        self.began = time.perf_counter()
        self._fd, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        environment = {
            **os.environ,
            "HOME": home,
            "TERM": "xterm-256color",
            "COLORTERM": "truecolor",
            "ANTHROPIC_API_KEY": "none",
        }
        for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "TMUX", "NO_COLOR"):
            environment.pop(name, None)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "dragoman", "tui", *arguments],
            stdin=theirs, stdout=theirs, stderr=theirs, cwd=home, env=environment, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(1, termios.TIOCSCTTY, 0),
        )  # fmt: skip
        os.close(theirs)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.emulator = TerminalEmulator(COLUMNS, ROWS)

    def read(self, seconds: float) -> bool:
        """Take in what the program writes within some seconds."""
        if not select.select([self._fd], [], [], seconds)[0]:
            return False
        data = os.read(self._fd, 1 << 16)
        for asked, answer in ((b"\x1b]11;?", b"\x1b]11;rgb:1010/1010/1010\x1b\\"), (b"\x1b[c", b"\x1b[?62;22c")):
            if asked in data:
                os.write(self._fd, answer)
        self.emulator.feed(self._decoder.decode(data))
        return True

    @property
    def text(self) -> str:
        return "\n".join(row.text for row in self.emulator.rows)

    def until(self, is_so: Callable[[], bool]) -> float:
        """Wait until something is on the screen; gives the time since the start."""
        end = time.monotonic() + PATIENCE
        while not is_so():
            if time.monotonic() > end:
                sys.exit(f"never shown:\n{self.text}")
            self.read(0.5)
        return time.perf_counter() - self.began

    def shows(self, *words: str) -> float:
        return self.until(lambda: all(word in self.text for word in words))

    def type(self, text: str) -> None:
        os.write(self._fd, text.encode())

    @property
    def input(self) -> str:
        """What stands in the input."""
        return next(
            (row.text.partition("\u276f")[2].strip() for row in self.emulator.rows if "\u276f" in row.text), ""
        )

    def has_typed(self, letters: str) -> bool:
        return self.input == letters

    def differs_from(self, text: str) -> bool:
        return self.text != text

    def keys(self, while_so: Callable[[], bool]) -> list[float]:
        """Type a letter again and again; gives how long each took to show, in ms."""
        took, letters = list[float](), ""
        while while_so():
            letter = "abcdefghij"[len(took) % 10]
            began = time.perf_counter()
            self.type(letter)
            letters += letter
            self.until(partial(self.has_typed, letters))
            took.append((time.perf_counter() - began) * 1000)
            if len(letters) == 60:
                self.type("\x7f" * 60)
                self.until(lambda: self.input[:1] in ("A", ""))
                letters = ""
            end = time.monotonic() + PAUSE
            while (left := end - time.monotonic()) > 0:
                self.read(left)
        self.type("\x7f" * len(letters))
        return took

    @property
    def memory(self) -> float:
        """MiB of the program's process."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS"))) / 1024

    def close(self) -> None:
        self.type("\x11")  # Ctrl-Q
        end = time.monotonic() + 20
        while self.process.poll() is None and time.monotonic() < end:
            try:
                self.read(0.1)
            except OSError:
                break
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        os.close(self._fd)


def started(agent: str, home: str) -> tuple[float, float]:
    """Seconds to the first paint, and until a prompt can be sent."""
    run = ScreenRun("--agent", agent, home=home)
    try:
        return run.until(lambda: "starting" in run.text or "ready" in run.text), run.shows("○ ready", "⏎ send")
    finally:
        run.close()


def told(took: Sequence[float]) -> str:
    return f"{median(took):.0f} ms | {quantiles(took, n=20)[-1]:.0f} ms | {max(took):.0f} ms | {len(took)}"


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    with tempfile.TemporaryDirectory(prefix="bench-screen-") as place:
        home = os.path.join(place, "home")
        os.mkdir(home)
        print("| start | first paint | prompt |\n|---|---|---|")
        for agent in ("coder", "testy"):
            times = [started(agent, home) for _ in range(rounds + 1)][1:]  # the first warms the disk
            paint, prompt = (median(each[at] for each in times) for at in (0, 1))
            print(f"| {agent} | {paint:.2f} s | {prompt:.2f} s |", flush=True)
        print("\n| | p50 | p95 | longest | keys | memory |\n|---|---|---|---|---|---|")
        run = ScreenRun("--agent", AGENT, home=home)
        try:
            run.shows("○ ready")
            idle = [0] * 40
            print(
                f"| idle | {told(run.keys(lambda: bool(idle) and idle.pop() == 0))} | {run.memory:.0f} MiB |",
                flush=True,
            )
            run.until(lambda: run.input[:1] in ("A", ""))
            run.type(f"stream {CHUNKS} {RATE}\r")
            run.shows("● working")
            took = run.keys(lambda: "○ ready" not in run.text)
            run.shows("streamed in")
            seconds = run.text.rpartition("streamed in ")[2].split(" s")[0]
            print(f"| {CHUNKS:,} chunks in {seconds} s | {told(took)} | {run.memory:.0f} MiB |", flush=True)
        finally:
            run.close()
        run = ScreenRun("--agent", AGENT, "--session", "long", home=home)
        try:
            began = time.perf_counter()
            run.shows("○ ready", f"Answer {ENTRIES - 1}")
            loaded = time.perf_counter() - began
            left = [0] * 60
            took = run.keys(lambda: bool(left) and left.pop() == 0)
            print(
                f"| {ENTRIES:,} entries, shown after {loaded:.1f} s | {told(took)} | {run.memory:.0f} MiB |",
                flush=True,
            )
            paged = []
            for _ in range(20):
                before, at = run.text, time.perf_counter()
                run.type("\x1b[5~")
                run.until(partial(run.differs_from, before))
                paged.append((time.perf_counter() - at) * 1000)
            print(f"| the same, a page up | {told(paged)} | {run.memory:.0f} MiB |")
        finally:
            run.close()
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    main()
