"""`dragoman run --sandbox=agent`: the agent itself is inside, with all that it starts."""

import contextlib
import http.server
import os
import shlex
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from at_terminal import TESTY, dragoman
from ordinary import run_as_ordinary_user

from dragoman.host.terminals.sandbox import landlock

pytestmark = [
    pytest.mark.usefixtures("nothing_left"),
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed"),
    pytest.mark.skipif(not os.path.exists("/usr/bin/python3"), reason="the system has no Python"),
]
OWNER = (1000, 1000)
# An agent of the system's own Python.  A prompt's lines are `sh COMMAND`, which it runs, or `write PATH`, for us.
AGENT = """
import json, os, subprocess, sys
def send(**message): print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
def say(text):
    content = {"type": "text", "text": text}
    update = {"sessionUpdate": "agent_message_chunk", "content": content}
    send(method="session/update", params={"sessionId": "s", "update": update})
def do(line):
    word, _, rest = line.partition(" ")
    if word == "sh":
        done = subprocess.run(["sh", "-c", rest], capture_output=True, text=True)
        return done.stdout + done.stderr
    params = {"sessionId": "s", "path": os.path.abspath(rest), "content": "written"}
    send(id="w", method="fs/write_text_file", params=params)
    return json.dumps(json.loads(sys.stdin.readline()).get("error", "written")) + "\\n"
while line := sys.stdin.readline():
    message = json.loads(line)
    method, id = message.get("method"), message.get("id")
    if method == "initialize":
        send(id=id, result={"protocolVersion": 1})
    elif method == "session/new":
        send(id=id, result={"sessionId": "s"})
    elif method == "session/prompt":
        for line in message["params"]["prompt"][-1]["text"].splitlines():
            say(do(line))
        send(id=id, result={"stopReason": "end_turn"})
"""
WALLED = ["run", "--sandbox=agent", "--permissions", "allow-all"]
PROBE = ["--agent", shlex.join(["/usr/bin/python3", "-c", AGENT])]


@pytest.fixture
def here(tmp_path: Path) -> Path:
    here = tmp_path / "here"
    (here / ".git" / "hooks").mkdir(parents=True)
    (here / ".git" / "config").write_text("[core]\n")
    (tmp_path / "secret").write_text("a secret")
    if os.geteuid() == 0:
        for path in (here, *here.rglob("*")):
            os.chown(path, *OWNER)
    return here


def test_the_agent_reaches_its_directory_and_nothing_else(here: Path, tmp_path: Path) -> None:
    prompt = f"sh echo mine > new; pwd\nsh cat {tmp_path}/secret\nsh ls /proc | grep -c ^[0-9]\nsh ls -A ~; id -u"
    result = dragoman(*WALLED, *PROBE, prompt, cwd=here)
    assert (here / "new").read_text() == "mine\n"
    where, secret, processes, user = result.stdout.splitlines()
    assert (where, "No such file" in secret, int(processes) < 10) == (str(here), True, True), result.stdout
    assert user == str(OWNER[0] if os.geteuid() == 0 else os.geteuid())
    assert result.returncode == 0


def test_the_start_says_what_is_inside_and_what_is_outside(here: Path) -> None:
    inside = " ".join(
        dragoman(*WALLED, "--network", "a.test,b.test:80", *PROBE, "sh true", cwd=here).stderr.split()
    )
    assert "sandbox: the agent is inside with all that it starts" in inside
    assert "asks us to read or write are read and written from outside" in inside
    assert "it connects to a.test, b.test:80" in inside
    assert landlock.described(landlock.version()) in inside
    told = " ".join(dragoman("run", "--sandbox", *PROBE, "sh true", cwd=here).stderr.split())
    assert "its own process, and what it runs by itself after a yes, are outside" in told


def test_an_agent_of_ours_finds_its_installation(here: Path) -> None:
    result = dragoman(*WALLED, "--agent", "dragoman agent testy", "run sh -c 'touch inside; echo done'", cwd=here)
    assert (result.returncode, (here / "inside").exists()) == (0, True), result.stderr
    assert "done" in result.stdout


def test_what_is_protected_is_not_changed_from_inside_and_not_by_us_for_it(here: Path) -> None:
    prompt = (
        "sh echo x >> .git/config; echo x > .git/hooks/pre-commit\nwrite .git/hooks/pre-commit\nwrite .envrc\n"
        "write .git/config\nwrite note.txt\nsh cat note.txt"
    )
    result = dragoman(*WALLED, *PROBE, prompt, cwd=here)
    assert result.stdout.count("Read-only file system") == 2, result.stdout
    assert result.stdout.count("cannot be changed while the agent runs in a sandbox") == 3
    assert result.stdout.endswith('"written"\nwritten\n')
    assert (here / ".git" / "config").read_text() == "[core]\n"
    assert sorted(path.name for path in here.rglob("*")) == [".git", "config", "hooks", "note.txt"]


def test_an_agent_that_makes_what_is_protected_is_ended_and_that_is_set_aside(here: Path) -> None:
    result = dragoman(*WALLED, *PROBE, "sh echo evil > .envrc; sleep 1000", cwd=here)
    assert result.returncode == 5
    (left,) = [path.name for path in here.iterdir() if path.name.startswith(".envrc")]
    assert left.startswith(".envrc.set-aside-")


def test_nothing_of_the_agent_outlives_the_run(here: Path) -> None:
    os.mkfifo(here / "alive", 0o666)
    with open(os.open(here / "alive", os.O_RDONLY | os.O_NONBLOCK), "rb") as alive:
        prompt = "sh setsid sh -c 'exec 3> alive; exec sleep 1000' > /dev/null 2>&1 & sleep 0.2; echo started"
        assert dragoman(*WALLED, *PROBE, prompt, cwd=here).stdout == "started\n"
        assert alive.read() == b""  # nobody has the other end


@contextlib.contextmanager
def serving() -> Iterator[int]:
    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"model")

        def log_message(self, *_: object) -> None:
            """Nobody reads it."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def test_the_agent_connects_to_the_hosts_of_its_list_alone(here: Path) -> None:
    get = "/usr/bin/python3 -c 'import sys, urllib.request as u; print(u.urlopen(sys.argv[1]).read())'"
    with serving() as port:
        prompt = f"sh {get} http://127.0.0.1:{port}/; {get} http://localhost:{port}/ 2>&1 | tail -1"
        listed = dragoman(*WALLED, "--network", f"127.0.0.1:{port}", *PROBE, prompt, cwd=here)
        none = dragoman(*WALLED, *PROBE, prompt, cwd=here)
    assert listed.stdout.splitlines() == ["b'model'", "urllib.error.HTTPError: HTTP Error 403: Forbidden"]
    assert "model" not in none.stdout and "refused" in none.stdout


def test_more_can_be_made_visible_to_be_read(here: Path, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "tool").write_text("a tool\n")
    result = dragoman(*WALLED, "--visible", str(tools), *PROBE, f"sh cat {tools}/tool; touch {tools}/new", cwd=here)
    assert result.stdout.startswith("a tool\n") and "Read-only file system" in result.stdout
    assert os.listdir(tools) == ["tool"]


@pytest.mark.parametrize(
    ("arguments", "code", "why"),
    [
        (["--network", "a.test", "hello"], 64, "are for an agent in a sandbox: add --sandbox=agent"),
        (["--sandbox", "--visible", "/srv", "hello"], 64, "are for an agent in a sandbox: add --sandbox=agent"),
        (["--sandbox=agents", "hello"], 64, "--sandbox"),
        (["--sandbox=agent", "--agent", "wss://a.test/", "hello"], 5, "runs elsewhere"),
        (["--sandbox=agent", "--agent", "no-such-agent", "hello"], 5, "no-such-agent: No such file or directory"),
        (["--sandbox=agent", "--visible", "/nowhere/at-all", "--agent", TESTY, "hello"], 5, "/nowhere/at-all"),
    ],
)
def test_what_cannot_be_put_inside_is_refused(arguments: list[str], code: int, why: str, here: Path) -> None:
    result = dragoman("run", *arguments, cwd=here)
    assert (result.returncode, why in " ".join(result.stderr.split())) == (code, True), result.stderr


def test_the_home_directory_cannot_be_the_workspace_of_an_agent_inside(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(here))
    result = dragoman(*WALLED, *PROBE, "sh true", cwd=here)
    assert result.returncode == 5 and "your home directory" in " ".join(result.stderr.split())


@pytest.mark.timeout(900)
@pytest.mark.skipif(os.geteuid() != 0, reason="the tests above were an ordinary user's")
def test_an_ordinary_user_s_agent_is_inside_too() -> None:
    run_as_ordinary_user(__file__, "-k", "nothing_else or what_is_protected or outlives")
