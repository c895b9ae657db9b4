"""Compares our bridge to Claude with that of npm: the time to `initialize` and to the first update, and memory.

python claude_bridges.py NPM_FOLDER [ROUNDS]      NPM_FOLDER is what scripts/claude-npm prints

Both run the same `claude` program, which asks a server on loopback; its own memory is not counted.  Bridges take
turns, round by round; medians are shown, and how many times better ours is.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dragoman.bridges.claude.program.launch import claude_program

SERVER = Path(__file__).parent.parent / "tests" / "claude" / "anthropic_server.py"
NPM = "node_modules/@agentclientprotocol/claude-agent-acp/dist/index.js"
MEASURES = {"initialize": "start to initialize, ms", "first": "start to first update, ms", "memory": "memory, MiB"}


class Bridge:
    """A bridge that is driven by hand: one request after the other."""

    def __init__(self, argv: list[str], home: Path, url: str) -> None:
        self._id = 0
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "CLAUDE_CONFIG_DIR": str(home / ".claude"),
            "CLAUDE_CODE_EXECUTABLE": claude_program(),
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": "sk-ant-for-benchmarks",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_TELEMETRY": "1",
            "DISABLE_AUTOUPDATER": "1",
            "IS_SANDBOX": "1",
            "TMPDIR": str(home),
        }
        self.process = subprocess.Popen(
            argv, cwd=home, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )

    def ask(self, method: str, **params: Any) -> int:
        """Make a request; gives its id."""
        assert self.process.stdin
        self._id += 1
        request = {"jsonrpc": "2.0", "id": self._id, "method": method, "params": params}
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        self.process.stdin.flush()
        return self._id

    def messages(self) -> Iterator[dict[str, Any]]:
        """What it says, as it comes."""
        assert self.process.stdout
        for line in self.process.stdout:
            yield json.loads(line)
        raise SystemExit("the bridge has ended")

    def answer(self, id: int) -> Any:
        """The result of a request."""
        found = next(message for message in self.messages() if message.get("id") == id and "method" not in message)
        return found["result"]

    def memory(self) -> float:
        """The bridge's own share of memory, in MiB; that of the programs it has started is not in it."""
        rollup = Path(f"/proc/{self.process.pid}/smaps_rollup").read_text()
        return next(int(line.split()[1]) / 1024 for line in rollup.splitlines() if line.startswith("Pss:"))

    def close(self) -> None:
        """Hang up, as an editor does."""
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait(60)


def sample(argv: list[str], url: str) -> dict[str, float]:
    """One start, one session, one prompt."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        begun = time.perf_counter()
        bridge = Bridge(argv, Path(folder), url)
        bridge.answer(bridge.ask("initialize", protocolVersion=1, clientCapabilities={}))
        found = {"initialize": 1000 * (time.perf_counter() - begun)}
        session = bridge.answer(bridge.ask("session/new", cwd=folder, mcpServers=[]))["sessionId"]
        prompt = bridge.ask("session/prompt", sessionId=session, prompt=[{"type": "text", "text": "hello"}])
        for message in bridge.messages():
            update = message.get("params", {}).get("update", {})
            if update.get("sessionUpdate") == "agent_message_chunk":
                break
        found["first"] = 1000 * (time.perf_counter() - begun)
        bridge.answer(prompt)
        found["memory"] = bridge.memory()
        bridge.close()
        return found


@contextmanager
def serving() -> Iterator[str]:
    """The server that plays the model; gives its URL."""
    with subprocess.Popen([sys.executable, str(SERVER)], stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout
            yield server.stdout.readline().strip()
        finally:
            server.kill()


def main(npm: str, rounds: int = 7) -> None:
    contenders = {
        "ours": [str(Path(sys.executable).with_name("dragoman")), "agent", "claude"],
        "npm": ["node", str(Path(npm, NPM).resolve())],
    }
    samples: dict[str, list[dict[str, float]]] = {name: [] for name in contenders}
    with serving() as url:
        for number in range(rounds + 1):
            for name, argv in contenders.items():
                found = sample(argv, url)
                if number:  # the first one loads files
                    samples[name].append(found)
    print("| | ours | npm | times better |\n| --- | ---: | ---: | ---: |")
    for measure, title in MEASURES.items():
        ours, theirs = (statistics.median(each[measure] for each in samples[name]) for name in contenders)
        print(f"| {title} | {ours:,.0f} | {theirs:,.0f} | {theirs / ours:.2f} |")


if __name__ == "__main__":
    main(sys.argv[1], *(int(rounds) for rounds in sys.argv[2:]))
