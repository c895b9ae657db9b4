"""Where somebody with settings of their own works with Git."""

import os
import subprocess
from contextlib import ExitStack, suppress
from pathlib import Path

from patience import PATIENCE

BAD = "import os\nVALUE = 1\n"  # one finding, which can be repaired
WORSE = BAD + "\nimport sys\n"  # one more, in line 4


class Site:
    """A directory in which a state is made by somebody with settings of their own."""

    def __init__(self, at: Path, settings: str = "", earlier: "Site | None" = None) -> None:
        """`earlier`: where the same person has worked before; they have the same home and environment."""
        self.at, self.cwd, self.home = at, at / "project", earlier.home if earlier else at / "home"
        self.cwd.mkdir(parents=True)
        self.home.mkdir(exist_ok=True)
        self.ran = at / "ran"  # a program that the settings name tells here that it was run
        program = at / "program"
        program.write_text(f"#!/bin/sh\necho $0 >> '{self.ran}'\nexit 1\n")
        program.chmod(0o755)
        identity = '[user]\n\tname = Ada\n\temail = ada@example.com\n[protocol "file"]\n\tallow = always\n'
        (self.home / ".gitconfig").write_text(identity + settings.replace("PROGRAM", str(program)))
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "XDG_CONFIG"))
        }
        places = {"HOME": str(self.home), "XDG_STATE_HOME": str(at.with_name(f"{at.name}-state"))}
        self.env = earlier.env if earlier else {**inherited, **places, "GIT_CONFIG_NOSYSTEM": "1"}
        self.left = ExitStack()  # what ends with the state

    def git(self, *words: str, at: Path | None = None) -> str:
        command = ["git", *words]
        done = subprocess.run(
            command, cwd=at or self.cwd, env=self.env, check=True, capture_output=True, timeout=PATIENCE
        )
        return done.stdout.decode()

    def fails(self, *words: str) -> None:
        """Run a command that stops half-way, as those do that meet a conflict."""
        with suppress(subprocess.CalledProcessError):
            self.git(*words)
            raise AssertionError(f"git {words} should have failed")

    def write(self, name: str, text: str = BAD, *, at: Path | None = None) -> Path:
        path = (at or self.cwd) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
        return path

    def commit(self, *names: str, at: Path | None = None) -> None:
        self.git("add", "-A", *names, at=at)
        self.git("commit", "-qm", "a commit", at=at)

    def start(self, *options: str, at: Path | None = None) -> Path:
        """A repository with one commit."""
        at = at or self.cwd
        at.mkdir(parents=True, exist_ok=True)
        self.git("init", "-q", *options, at=at)
        self.write(".gitignore", "ignored.py\n", at=at)
        self.write("old.py", at=at)
        self.commit(at=at)
        return at

    def change(self) -> None:
        """Make the usual changes: one that is staged, one that is not, a new file and an ignored one."""
        self.write("staged.py")
        self.git("add", "staged.py")
        self.write("old.py", WORSE)
        self.write("new.py")
        self.write("ignored.py")

    def submodule(self) -> Path:
        self.start(at=self.at / "other")
        self.start()
        self.git("submodule", "--quiet", "add", str(self.at / "other"), "sub")
        self.git("commit", "-qam", "a submodule")
        return self.cwd / "sub"
