"""Faults of a process: it does not end, ends too soon, sends nothing, or fills its stderr."""

import os
import signal
import sys
import time

from .agent import Message, Rogue


class Immortal(Rogue):
    """Continues when the client hangs up, and when it gets SIGTERM."""

    def run(self) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        super().run()

    def left(self) -> None:
        while True:
            time.sleep(60)


class Forking(Immortal):
    """Leaves a child process behind that continues as well."""

    def run(self) -> None:
        if os.fork() == 0:
            self.left()
        super().run()


class Stillborn(Rogue):
    """Ends before it has answered anything, with its reason on stderr."""

    def run(self) -> None:
        sys.stderr.write("rogue: no API key\n")
        sys.exit(self.number or 3)


class Mute(Rogue):
    """Never answers initialize."""

    def initialize(self, request: Message) -> None:
        """Nothing to say."""


class NeverAnswers(Rogue):
    """Never answers prompts."""

    def prompt(self, request: Message) -> None:
        """Nothing to say."""


class LoudStderr(Rogue):
    """Writes two megabytes to stderr before it answers initialize, and again before every prompt's answer."""

    def complain(self) -> None:
        sys.stderr.write(("rogue: deprecated\n" * 1024) * 114)
        sys.stderr.flush()

    def initialize(self, request: Message) -> None:
        self.complain()
        super().initialize(request)

    def end(self, request: Message) -> None:
        self.complain()
        super().end(request)


class ClosedStdout(Rogue):
    """Closes its stdout in the middle of a turn, and continues."""

    def prompt(self, request: Message) -> None:
        self.say("closing")
        os.close(1)
        self.left()

    def left(self) -> None:
        while True:
            time.sleep(60)


class CrashAtByte(Rogue):
    """Is killed after NUMBER bytes of its output, even in the middle of a line."""

    written = 0

    def write(self, data: bytes) -> None:
        left = self.number - self.written
        super().write(data[:left])
        self.written += len(data)
        if len(data) >= left:
            sys.stderr.write("rogue: out of bytes\n")
            sys.stderr.flush()
            os.kill(os.getpid(), signal.SIGKILL)
