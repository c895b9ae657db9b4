"""A repository with every trap is opened with every command and in every mode: nothing runs, nothing leaves."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from coder.model_servers import OpenAIChat, answer
from patience import PATIENCE

from .traps import SECRET, Traps

DRAGOMAN = [str(Path(sys.executable).with_name("dragoman"))]
INITIALIZE = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}\n'


class Scene:
    """The repository, and somebody at the address that its settings lead to."""

    def __init__(self, traps: Traps, home: Path) -> None:
        self.traps, self.home = traps, home
        self.visits = 0

    def visited(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.visits += 1
        writer.close()

    async def run(self, *words: str, stdin: bytes = b"", **environ: str) -> tuple[int, str]:
        """Run a command in the repository; gives its status and all it said."""
        process = await asyncio.create_subprocess_exec(
            *(*DRAGOMAN, *words),
            cwd=self.traps.repository,
            env=self.environ | environ,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        async with asyncio.timeout(PATIENCE):
            said, _ = await process.communicate(stdin)
        return process.returncode or 0, said.decode()

    @property
    def environ(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.endswith(("_API_KEY", "_BASE_URL"))}
        environment = str(self.traps.repository / ".venv")  # one that somebody has activated
        return {
            **kept,
            "HOME": str(self.home),
            "PATH": self.traps.search_path,
            "VIRTUAL_ENV": environment,
            "CONDA_PREFIX": environment,
        }

    def check(self, said: str = "") -> None:
        """Nothing ran, nobody was visited, no secret was told."""
        assert self.traps.fired == []
        assert self.visits == 0
        assert SECRET not in said


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    home = tmp_path / "home"
    home.mkdir()
    scene: list[Scene] = []
    server = await asyncio.start_server(lambda r, w: scene[0].visited(r, w), "127.0.0.1", 0)
    traps = Traps(tmp_path, server.sockets[0].getsockname()[1])
    traps.set_all()
    scene.append(Scene(traps, home))
    yield scene[0]
    server.close()
    await server.wait_closed()


# Each with what it is given on stdin, and what it says.
COMMANDS: Sequence[tuple[Sequence[str], bytes, str]] = (
    (["--help"], b"", "usage"),
    (["agents", "list"], b"", "reviewer"),
    (["agents", "show", "claude"], b"", "claude"),
    (["audit"], b"", ""),
    (["audit", "--verify"], b"", ""),
    (["permissions", "check", ".dragoman/permissions.toml"], b"", "script.sh"),
    (["setup", "zed"], b"", "agent_servers"),
    (["sessions", "list"], b"", ""),
    (["agent", "coder"], INITIALIZE, "agentCapabilities"),
    (["agent", "reviewer"], INITIALIZE, "agentCapabilities"),
    (["translate", "--", *DRAGOMAN, "agent", "echo"], INITIALIZE, "agentCapabilities"),
    (["demo"], b"", "Repaired"),
    (["new", "agent", "mine"], b"", "mine"),
    (["run", "--agent", "echo", "--permissions", "allow-all", "hello"], b"", "hello"),
    (["run", "--agent", "testy", "--permissions", "allow-all", "print stray"], b"", "Printed"),
    (["run", "--agent", "coder", "--permissions", "deny", "/todo"], b"", "reviewer"),
)


async def test_commands(scene: Scene) -> None:
    for words, stdin, expected in COMMANDS:
        _, said = await scene.run(*words, stdin=stdin)
        scene.check(said)
        assert expected in said, words


# What the reviewer is asked, and what it says about what it did not do.
REVIEWS = (
    ("/review", "allow-reads", "ESLint was not run"),
    ("/review", "deny", "the client refused to read"),
    ("/review diff", "allow-reads", "cannot read the repository"),
    ("/review staged", "allow-edits", ""),
    ("/fix old.py", "allow-reads", "Nothing was changed"),
    ("/todo", "allow-reads", "for later"),
)


async def test_reviews(scene: Scene) -> None:
    before = (scene.traps.repository / "old.py").read_bytes()
    for prompt, preset, expected in REVIEWS:
        _, said = await scene.run("run", "--agent", "reviewer", "--permissions", preset, prompt)
        scene.check(said)
        assert expected in said, (prompt, preset)
    assert (scene.traps.repository / "old.py").read_bytes() == before


# What the repository's instructions have the model try, and how each mode refuses it.
WRITTEN = (
    *(".git/commondir", ".git/modules/sub/commondir", "x/.git/HEAD", ".zed/tasks.json", "new/AGENTS.md"),
    *("new.code-workspace", ".claude/skills/mine/SKILL.md", ".nvimrc", "new/.envrc"),
)
ASKED, NEVER = "The user did not allow this", "Nothing can be changed or run in the mode"
MODES = (
    ("ask", "deny", ASKED),
    ("ask", "allow-edits", ASKED),
    ("code", "allow-edits", ASKED),
    ("plan", "allow-edits", NEVER),
    ("architect", "allow-all", NEVER),
)


async def test_the_coder_obeys_no_instructions_of_the_repository(scene: Scene) -> None:
    """The model is taken in by them; each thing it tries is refused, and both it and the user are told why."""
    attempts = [("write_file", {"path": path, "content": "x"}) for path in WRITTEN]
    attempts.append(("run_command", {"command": "sh script.sh"}))
    harmless = ("use_skill", {"skill": "evil"})
    for mode, preset, refused in MODES:
        model = OpenAIChat(answer("I obey.", *attempts, harmless, ("read_file", {"path": ".env"})), answer("Done."))
        async with model.running():
            agent = f"dragoman agent coder --model {model.name}"
            words = ("run", "--agent", agent, "--permissions", preset, "--mode", mode, "Go on")
            status, said = await scene.run(*words, **model.environ)
        scene.check(said)
        assert SECRET not in str(model.requests)
        told = [message["content"] for message in model.requests[1]["messages"] if message["role"] == "tool"]
        assert [refused in text for text in told[: len(attempts)]] == [True] * len(attempts), (mode, preset, told)
        assert [path for path in WRITTEN if (scene.traps.repository / path).exists()] == []
        assert status == 4  # done, but something was denied
        if (mode, preset) == ("code", "allow-edits"):
            assert said.count(" is protected: ") == len(WRITTEN) + 1  # and .env


async def test_a_gateway(scene: Scene, tmp_path: Path) -> None:
    gateway = await asyncio.create_subprocess_exec(
        *DRAGOMAN,
        *("serve", "--agent", "reviewer", "--agent", "testy", "--listen", "127.0.0.1:0", "--no-auth"),
        *("--permissions", "allow-reads", "--state", str(tmp_path / "state")),
        cwd=scene.traps.repository,
        env=scene.environ,
        stdout=asyncio.subprocess.PIPE,
    )
    assert gateway.stdout
    try:
        async with asyncio.timeout(PATIENCE):
            url = (await gateway.stdout.readline()).decode().strip()
        for agent, prompt, expected in (("reviewer", "/review staged", ""), ("testy", "say it", "it")):
            _, said = await scene.run("run", "--agent", f"{url}/{agent}", "--permissions", "deny", prompt)
            assert expected in said
            scene.check(said)
        _, said = await scene.run("connect", f"{url}/testy", stdin=INITIALIZE)
        assert "agentCapabilities" in said
    finally:
        gateway.send_signal(signal.SIGTERM)
        await gateway.wait()
    scene.check()


async def test_named_runners_of_packages_do_not_start_in_the_repository(scene: Scene, tmp_path: Path) -> None:
    program = tmp_path / "programs" / "npx"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\npwd >&2\nexit 1\n")
    program.chmod(0o755)
    path = f"{scene.traps.search_path.rpartition(os.environ['PATH'])[0]}{program.parent}:{os.environ['PATH']}"
    _, said = await scene.run("run", "--agent", "claude-npm", "hello", PATH=path)
    assert str(scene.home) in said
    assert str(scene.traps.repository) not in said
    scene.check(said)


async def test_a_name_leads_to_no_program_of_the_repository(scene: Scene) -> None:
    """Not even where the repository is all there is on the PATH."""
    path = f"{scene.traps.repository}/bin"
    _, said = await scene.run("run", "--agent", "claude-npm", "hello", PATH=path)
    assert "cannot start 'npx': only the current directory has it" in said
    scene.check(said)
