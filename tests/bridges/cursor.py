"""`dragoman cursor` as a process of its own, and a chat that talks to it over plain HTTP."""

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from patience import PATIENCE


class Bridge:
    """A running bridge; requests are made with the standard library's HTTP client."""

    def __init__(self, process: "subprocess.Popen[str]", port: int, token: str) -> None:
        self.process, self.port, self.token = process, port, token

    def request(self, method: str, path: str, body: Any = None, **headers: str) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection("localhost", self.port, timeout=PATIENCE)
        sent = {"authorization": f"Bearer {self.token}", "connection": "close", **headers}
        data = None
        if body is not None:
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            sent.setdefault("content-type", "application/json")
        connection.request(method, path, data, {name: value for name, value in sent.items() if value})
        return connection.getresponse()

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """The status and the JSON of an answer."""
        with self.request(method, path, body, **headers) as answer:
            return answer.status, json.loads(answer.read() or b"null")

    def send(self, composer: str, text: str, model: str = "acp:testy", **more: Any) -> Iterator[Any]:
        """Send a message and give the events of its turn as they come."""
        body = {"composerId": composer, "modelName": model, "text": text, **more}
        answer = self.request("POST", "/acp/sendMessage", body)
        assert answer.status == 200, answer.read()
        return events(answer)

    def said(self, composer: str, text: str, **more: Any) -> str:
        """What the agent says in a turn that ends as turns do."""
        told = list(self.send(composer, text, **more))
        assert told[-1] == {"type": "done", "composerId": composer, "stopReason": "end_turn"}
        return "".join(event["text"] for event in told if event["type"] == "text")

    def stop(self, number: int = signal.SIGTERM) -> None:
        if self.process.poll() is None:
            self.process.send_signal(number)
        self.process.wait(PATIENCE)


def events(answer: http.client.HTTPResponse) -> Iterator[Any]:
    with answer:
        for line in answer:
            if line.startswith(b"data: "):
                yield json.loads(line.removeprefix(b"data: "))


@contextlib.contextmanager
def bridging(directory: Path, *options: str) -> Iterator[Bridge]:
    """Start the bridge with Testy behind it; what it keeps is in the directory."""
    state, work = directory / "state", directory / "work"
    work.mkdir(exist_ok=True)
    command = [sys.executable, "-I", "-m", "dragoman", "cursor", "--port", "0", "--agent", "testy"]
    command += ["--state", str(state), "--workspace", str(work), *options]
    homes = {name: str(directory / name) for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME")}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, cwd=work, env={**os.environ, **homes}, text=True
    ) as process:
        assert process.stdout
        port = int(process.stdout.readline().strip().rpartition(":")[2])
        bridge = Bridge(process, port, (state / "local.token").read_text())
        try:
            yield bridge
        finally:
            bridge.stop()
            assert process.returncode in (0, -signal.SIGKILL)
