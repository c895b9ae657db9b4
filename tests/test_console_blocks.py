"""Every command that a `console` block of the documentation shows is run, as a reader would type it."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from patience import PATIENCE

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
BIN = Path(sys.executable).parent
ECHO = "from dragoman import serve\nfrom dragoman.testing import Echo\n\nserve(Echo)\n"
# An agent without Dragoman: in a sandbox it has the system's Python alone.
BARE = """
import json, sys

for line in sys.stdin:
    message = json.loads(line)
    result = {"initialize": {"protocolVersion": 1}, "session/new": {"sessionId": "s"}}.get(message["method"])
    answer = {"jsonrpc": "2.0", "id": message["id"], "result": result or {"stopReason": "end_turn"}}
    print(json.dumps(answer), flush=True)
"""
# Agents that need an account are the reviewer here, which keeps its sessions: names of one's own win.
NAMED = "\n".join(
    f'[{name}]\ncommand = "{BIN}/dragoman"\nargs = ["agent", "reviewer"]'
    for name in ("claude", "codex", "gemini", "mine")
)
RULES = '\n[[deny]]\noperation = "terminal_execute"\nargv = ["terraform", "destroy", "..."]\n'
REPOSITORY = """
git init && git add . && git -c user.name=Ann -c user.email=ann@example.com commit -m tea
echo "more tea" >> README.md
"""
OWNER = (1000, 1000)  # of the project, where root follows the documentation: nothing in a sandbox runs as root
# The exit codes that docs/programs/run.md explains: done, refused, denied; the coder without a model wants a login.
DONE = {0, 2, 4}
WITHOUT_A_MODEL = 5


def blocks() -> Iterator[tuple[str, list[str]]]:
    for page in PAGES:
        for number, block in enumerate(re.findall(r"```console\n(.*?)```", page.read_text(), re.DOTALL)):
            commands = [re.sub(r"\s{2,}#.*", "", line).strip() for line in block.splitlines()]
            if "$ " in block:  # a transcript: commands, and what they print
                commands = [command.removeprefix("$ ") for command in commands if command.startswith("$ ")]
                TRANSCRIPTS[commands[0]] = block.partition("\n")[2]
            yield f"{page.parent.name}-{page.stem}-{number}", [command for command in commands if command]


TRANSCRIPTS: dict[str, str] = {}
BLOCKS = dict(blocks())


class Reader:
    """Somebody who has a project and follows the documentation in it."""

    def __init__(self, home: Path) -> None:
        self.project = home / "project"
        self.project.mkdir()
        (home / "agents").mkdir()
        (home / "agents" / "mine.py").write_text(BARE)
        (home / ".config" / "dragoman").mkdir(parents=True)
        (home / ".config" / "dragoman" / "agents.toml").write_text(NAMED)
        for name in ("echo.py", "my_agent.py", "greeter.py"):
            (self.project / name).write_text(ECHO)
        (self.project / "README.md").write_text("tea\n")
        (self.project / ".dragoman").mkdir()
        (self.project / ".dragoman" / "permissions.toml").write_text(RULES)
        subprocess.run(["bash", "-c", REPOSITORY], cwd=self.project, check=True, capture_output=True)
        old_agent = home / "old-agent"  # it speaks the draft
        old_agent.write_text(
            f'#!/bin/sh\nexec "{BIN}/dragoman" translate --from v1 --to draft -- "{BIN}/dragoman" agent echo\n'
        )
        old_agent.chmod(0o755)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "DRAGOMAN"))}
        keys = [name for name in kept if name.endswith("_API_KEY")]
        path = os.pathsep.join([str(home), str(BIN), kept["PATH"]])
        self.environment = {**kept, "HOME": str(home), "PATH": path, "OLLAMA_HOST": "127.0.0.1:1"}
        for name in keys:
            del self.environment[name]
        self.home, self.served, self.url = home, None, ""  # type: ignore[var-annotated]

    def run(self, command: str) -> None:
        """Run one line; a gateway runs on until the block is over."""
        if command.startswith("make "):
            done = subprocess.run(["make", "-n", *command.split()[1:]], cwd=ROOT, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
        elif command.startswith("pip install "):
            extras = re.findall(r"\[(.*?)\]", command)
            assert set(",".join(extras).split(",")) - {""} <= set(PROJECT["optional-dependencies"])
        elif command.startswith("dragoman serve"):
            self.serve(command if "--listen" in command else f"{command} --listen 127.0.0.1:0")
        elif command.startswith("dragoman cursor"):
            self.serve(f"{command} --port 0")
        else:
            self.run_to_its_end(command)

    def run_to_its_end(self, command: str) -> None:
        if re.match(r"dragoman (connect|gateway (?!tokens|import|config))", command) and not self.served:
            self.run(f"dragoman serve --agent echo='{BIN}/dragoman agent echo' --agent mine='python my_agent.py'")
            self.run_to_its_end(
                f"dragoman run --agent 'dragoman connect {self.url}' hello"
            )  # so there is a session
        if command.startswith("dragoman gateway import"):  # on another machine, say
            self.stop()
            (self.home / ".local").rename(self.home / "before")
        command = (
            command.replace("ws://127.0.0.1:8765/acp", self.url)
            .replace("http://localhost:37842", self.url)
            .replace("DIR", "copy")
            .replace("[ID …]", "")
        )
        if " SESSION" in command:
            self.follow(command)
            return
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.project,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        if done.returncode == WITHOUT_A_MODEL:
            assert "there is no provider's key" in done.stderr
        else:
            assert done.returncode in DONE, f"{command}\n{done.stdout}{done.stderr}"
        assert TRANSCRIPTS.get(command, done.stdout) == done.stdout
        if self.served and command.startswith("dragoman gateway drain"):
            self.served.communicate(timeout=PATIENCE)
            assert self.served.returncode == 0
            self.served = None

    def follow(self, command: str) -> None:
        """Follow a session, which goes on until somebody has seen enough."""
        listed = subprocess.check_output(
            ["dragoman", "gateway", "sessions"], env=self.environment, executable=BIN / "dragoman", text=True
        )
        session = json.loads(listed.splitlines()[0])["session"]
        with subprocess.Popen(
            ["bash", "-c", f"exec {command.replace('SESSION', session)}"],
            env=self.environment,
            stdout=subprocess.PIPE,
            text=True,
        ) as following:
            assert following.stdout
            assert json.loads(following.stdout.readline())
            following.terminate()

    def serve(self, command: str) -> None:
        before = None
        if "--take-over" in command:
            self.run_to_its_end("dragoman gateway sessions")  # so there is one to take over from
            before, self.served = self.served, None
        self.stop()
        work = self.home / "work"
        work.mkdir(exist_ok=True)
        command = command.replace("/srv/work", str(work)).replace("0.0.0.0:8765", "127.0.0.1:0")
        if "--tls" in command:
            self.certificate()
        if "--token-file tokens.json" in command:
            (self.project / "tokens.json").write_text('{"tokens": []}')
            (self.project / "tokens.json").chmod(0o600)
        self.served = subprocess.Popen(
            ["bash", "-c", f"exec {command}"],
            cwd=self.project,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.served.stdout and self.served.stderr
        self.url = self.served.stdout.readline().strip()
        assert re.match(r"(ws|http)s?://", self.url), self.served.stderr.read()
        if before:
            _, told = before.communicate(timeout=PATIENCE)
            assert before.returncode == 0, told

    def certificate(self) -> None:
        if not shutil.which("openssl"):
            pytest.skip("openssl is not installed")
        words = "req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 1 -subj /CN=localhost"
        subprocess.run(["openssl", *words.split()], cwd=self.project, check=True, capture_output=True)

    def stop(self) -> None:
        if self.served:
            self.served.send_signal(signal.SIGTERM)
            _, told = self.served.communicate(timeout=PATIENCE)
            assert self.served.returncode == 0, told
            self.served = None


@pytest.fixture
def home() -> Iterator[Path]:
    """A directory with a short path: the name of a socket has room for 107 characters."""
    with tempfile.TemporaryDirectory(prefix="dragoman-", ignore_cleanup_errors=True) as directory:
        yield Path(directory)


@pytest.mark.parametrize("name", BLOCKS)
def test_the_commands_of_the_documentation_work(name: str, home: Path) -> None:
    commands = BLOCKS[name]
    if any("--sandbox" in command for command in commands) and not shutil.which("bwrap"):
        pytest.skip("bubblewrap is not installed")
    reader = Reader(home)
    if os.geteuid() == 0 and any("--sandbox" in command for command in commands):
        for path in [reader.project, *reader.project.rglob("*")]:
            os.chown(path, *OWNER)
    try:
        for command in commands:
            reader.run(command)
        reader.stop()
    finally:
        if reader.served:
            reader.served.kill()
            reader.served.communicate()


def test_no_block_is_missed() -> None:
    """Commands stand in `console` blocks; those of other shells would not be run."""
    for page in PAGES:
        assert not re.findall(r"```(?:sh|bash|shell|zsh)\n", page.read_text()), page
    assert len(BLOCKS) > 10
