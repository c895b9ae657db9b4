"""Nothing of the gateway's or the host's lies where a sandbox writes or can see it: checked at the start."""

import asyncio
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from ordinary import OWNER, run_as_ordinary_user
from patience import PATIENCE

import dragoman
from dragoman import connect
from dragoman.cli import main
from dragoman.errors import Error
from dragoman.gateway.access.checks import Checks
from dragoman.gateway.agents.upstream import Hosted
from dragoman.gateway.gateway import Gateway
from dragoman.gateway.log.sqlite import SqliteEngine
from dragoman.host import Host
from dragoman.host.terminals import Terminals, execution
from dragoman.host.terminals.sandbox import landlock
from dragoman.host.terminals.sandbox.sandbox import Sandbox, SandboxUnavailable
from dragoman.testing import Testy

from .certificates import Authority
from .test_places import furnished, people, told

bubblewrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
PACKAGE = Path(dragoman.__file__).parent


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with the gateway's state where it is by default, and somebody standing in it."""
    home = tmp_path / "people" / "ada"
    (home / "work").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name)
    monkeypatch.chdir(home)
    return home


ISOLATED = ["--isolate", "--workspace", "work/{principal}"]
REFUSED = [
    (["--isolate", "--sandbox"], "--isolate needs a directory for each person"),
    (["--isolate", "--workspace", "work"], "--isolate needs a directory for each person"),
    (["--sandbox"], "your home directory|sessions, approvals"),
    (["--sandbox", "--workspace", "/"], "Dragoman itself"),
    (["--sandbox", "--workspace", str(PACKAGE.parent)], "Dragoman itself.*install Dragoman outside"),
    (["--sandbox", "--workspace", str(PACKAGE / "gateway")], "is in .*Dragoman itself"),
    (["--isolate", "--workspace", "../{principal}"], "your home directory"),
    (["--isolate", "--workspace", "{principal}", "--state", "ann"], "ann is a file of the gateway"),
    (["--isolate", "--workspace", "work/{principal}/x", "--state", "work/ann/x/y"], "a file of the gateway"),
    ([*ISOLATED, "--token-file", "work/ann/tokens.json"], "tokens.json is a file of the gateway"),
    ([*ISOLATED, "--visible", "."], "your home directory|sessions, approvals"),
    ([*ISOLATED, "--visible", ".."], "your home directory|sessions, approvals"),
    ([*ISOLATED, "--visible", "work"], "where everybody's workspace is"),
    ([*ISOLATED, "--visible", "work/ann"], "where everybody's workspace is"),
    ([*ISOLATED, "--visible", ".local"], "sessions, approvals and the audit log"),
    ([*ISOLATED, "--visible", "link"], "your home directory|sessions, approvals"),
    ([*ISOLATED, "--tls", "work/ann/server.pem", "server.key"], "server.pem is a file of the gateway"),
    ([*ISOLATED, "--tls", "server.pem", "work/ann/server.key"], "server.key is a file of the gateway"),
    (["--isolate", "--workspace", "../agents/{principal}"], "agents/ann/socket is a socket of yours"),
    (["--isolate", "--workspace", "../runtime/{principal}"], "runtime/bob is a socket of yours"),
    ([*ISOLATED, "--visible", "../agents"], "agents/ann/socket is a socket of yours"),
]


@pytest.mark.parametrize(("options", "sentence"), REFUSED, ids=[" ".join(options) for options, _ in REFUSED])
def test_a_gateway_whose_own_files_lie_inside_is_not_started(
    options: list[str],
    sentence: str,
    home: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (home / "link").symlink_to("..")
    (home / "work" / "ann").mkdir()
    Authority(home)
    for name in ("server.pem", "server.key"):
        shutil.copy(home / name, home / "work" / "ann")
    (home.parent / "agents").mkdir()
    (home.parent / "runtime").mkdir()
    monkeypatch.setenv("SSH_AUTH_SOCK", str(home.parent / "agents" / "ann" / "socket"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(home.parent / "runtime" / "bob"))
    (home / "work" / "ann" / "tokens.json").write_text('{"tokens": []}')
    (home / "work" / "ann" / "tokens.json").chmod(0o600)
    before = {*home.rglob("*")}
    assert main(["serve", "--listen", "127.0.0.1:0", "--agent", "testy", *options]) != 0
    said = " ".join(capsys.readouterr().err.split())
    assert re.search(sentence, said), said
    assert {*home.rglob("*")} == before


@pytest.mark.parametrize("walls", ["--isolate", "--sandbox", None])
def test_a_gateway_with_everything_apart_starts_and_says_which_walls_are_in_force(
    home: Path, walls: str | None
) -> None:
    with tempfile.TemporaryDirectory(prefix="dragoman-") as state:  # a socket's path has to be short
        options = ["--listen", "127.0.0.1:0", "--agent", "testy", "--state", state, *([walls] if walls else ())]
        options += ["--visible", sys.prefix] if walls == "--isolate" else []
        command = [sys.executable, "-m", "dragoman", "serve", *options, "--workspace", "work/{principal}"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as gateway:
            assert gateway.stdout and gateway.stderr
            assert gateway.stdout.readline().startswith("ws://")
            gateway.send_signal(signal.SIGTERM)
            log = gateway.stderr.read()
    assert gateway.returncode == 0
    assert log.count(landlock.described(landlock.version())) == (walls is not None), log


@pytest.mark.usefixtures("nothing_left")
async def test_isolation_without_a_directory_for_each_person_is_refused(tmp_path: Path) -> None:
    engine = SqliteEngine(tmp_path)
    with pytest.raises(ValueError, match="principal"):
        Gateway(engine, {"a": Hosted(target=["agent"], isolated=True)}, checks=Checks(workspace=str(tmp_path)))
    await engine.close()


@bubblewrap
@pytest.mark.usefixtures("nothing_left")
async def test_commands_of_isolated_agents_run_in_a_sandbox(tmp_path: Path) -> None:
    work = furnished(tmp_path)
    async with people(tmp_path, sandbox=False) as (_, ann, _):
        session = await ann.new_session(work / "ann")
        command = f"cat note.txt {tmp_path}/state/note.txt {work}/bob/note.txt; id -u"
        said = await told(ann, session, ["call", "terminal/create", {"command": command}])
        assert "canary of ann" in said
        assert "No such file" in said
        assert said.replace("canary of ann", "").count("canary") == 0


@bubblewrap
@pytest.mark.usefixtures("nothing_left")
async def test_an_isolated_agent_cannot_take_away_the_rules_of_a_workspace(tmp_path: Path) -> None:
    work = furnished(tmp_path)
    for place in (work / "ann", work / "ann" / "project"):
        (place / ".dragoman").mkdir()
        (place / ".dragoman" / "permissions.toml").write_text(
            '[[deny]]\noperation = "terminal_execute"\nargv = ["id", "..."]\n'
        )
        if os.geteuid() == 0:
            for path in (place / ".dragoman", place / ".dragoman" / "permissions.toml"):
                os.chown(path, *OWNER)
    async with people(tmp_path) as (_, ann, _):
        session = await ann.new_session(work / "ann" / "project")
        await told(
            ann, session, ["sh", f"cd {work}/ann; rm -rf .dragoman project/.dragoman; mv project/.dragoman x"]
        )
        await told(ann, session, ["sh", f"cd {work}/ann; mv project p; mkdir project; echo > project/.dragoman"])
        for cwd in (work / "ann", work / "ann" / "project"):
            another = await ann.new_session(cwd)
            assert "not permitted" in await told(ann, another, ["call", "terminal/create", {"command": "id"}])


# A host of one's own


@bubblewrap
@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize(
    "which", ["home", "above", "state", "settings", "package", "in the package", "audit", "interpreter"]
)
async def test_a_session_is_not_opened_where_our_own_files_lie(which: str, home: Path, tmp_path: Path) -> None:
    places = {
        "home": home,
        "above": tmp_path,
        "state": home / ".local" / "state" / "dragoman",
        "settings": home / ".config",
        "package": PACKAGE.parent,
        "in the package": PACKAGE / "host",
        "audit": home / "work",
        "interpreter": Path(sys.base_prefix),
    }
    (home / ".config" / "dragoman").mkdir(parents=True)
    places["state"].mkdir(parents=True)
    host = Host(sandbox=True, preset="allow-all", audit=home / "work" / "log" / "audit.jsonl")
    async with connect(Testy, host):
        with pytest.raises(Error, match="cannot be a workspace with a sandbox"):
            await host.new_session(places[which])
        (home / "project").mkdir()
        await host.new_session(home / "project")


@bubblewrap
@pytest.mark.usefixtures("nothing_left")
async def test_a_bubblewrap_that_turns_up_on_the_path_later_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = tmp_path / "workspace"
    programs = workspace / ".venv" / "bin"
    programs.mkdir(parents=True)
    if os.geteuid() == 0:
        for path in (workspace, *workspace.rglob("*")):
            os.chown(path, *OWNER)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    programs_to_plant = "for name in bwrap setpriv setsid python3; do"
    planted = f"{programs_to_plant} printf '#!/bin/sh\\ntouch {tmp_path}/ran' > .venv/bin/$name; done"
    async with Terminals(sandbox=Sandbox()) as terminals, asyncio.timeout(PATIENCE):
        for command in (f"{planted}; chmod +x .venv/bin/*", "echo inside"):
            terminal = await terminals.create("s", execution(command, cwd=str(workspace)))
            status = await terminal.wait()
            assert status and status.exit_code == 0, terminal.output()
        assert terminal.output().output == "inside\n"
    assert (programs / "bwrap").exists()
    assert not (tmp_path / "ran").exists()
    monkeypatch.setenv("PATH", f"{programs}::{os.environ['PATH']}")  # as for a host that is started now
    async with Terminals(sandbox=Sandbox()) as terminals:
        with pytest.raises(SandboxUnavailable, match="bwrap lies in the workspace"):
            await terminals.create("s", execution("true", cwd=str(workspace)))
    assert not (tmp_path / "ran").exists()


@pytest.mark.timeout(900)
@pytest.mark.skipif(os.geteuid() != 0, reason="this is run as an ordinary user")
def test_all_of_this_holds_for_an_ordinary_user() -> None:
    run_as_ordinary_user(__file__, "-k", "sandbox or later or rules")
