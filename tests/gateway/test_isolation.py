"""Agents of different principals, each in a sandbox of its own."""

import asyncio
import functools
import os
import secrets
import shutil
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ordinary import run_as_ordinary_user
from patience import PATIENCE

from dragoman.errors import AgentStartError
from dragoman.foundation.places import open_place
from dragoman.gateway.access.checks import Checks
from dragoman.gateway.agents.upstream import Hosted
from dragoman.host.isolation import isolation, network_proxy
from dragoman.host.terminals.sandbox import landlock
from dragoman.host.terminals.sandbox.sandbox import Sandbox

from .house import Watcher, hosting

pytestmark = [
    pytest.mark.usefixtures("nothing_left"),
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed"),
]

OWNER = (1000, 1000)
# An agent of the system's own Python: inside there is no other, unless it is made visible.
PROBE = """
import json, os, subprocess, sys
def answer(id, result): print(json.dumps({"jsonrpc": "2.0", "id": id, "result": result}), flush=True)
for line in sys.stdin:
    message = json.loads(line)
    params = message.get("params") or {}
    if message["method"] == "initialize":
        answer(message["id"], {"protocolVersion": 1})
    elif message["method"] == "session/new":
        answer(message["id"], {"sessionId": "s"})
    elif message["method"] == "session/prompt":
        command = params["prompt"][-1]["text"]
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
        content = {"type": "text", "text": done.stdout + done.stderr}
        update = {"sessionUpdate": "agent_message_chunk", "content": content}
        said = {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": update}}
        print(json.dumps(said), flush=True)
        answer(message["id"], {"stopReason": "end_turn"})
"""


async def run(watcher: Watcher, session: Any, command: str) -> str:
    before = len(watcher.told.get(session.id, []))
    await session.prompt(command)
    return b"".join(watcher.told[session.id][before:]).decode()


async def test_an_isolated_agent_reaches_its_principal_s_workspace_and_nobody_elses(tmp_path: Path) -> None:
    work = tmp_path / "work"
    for name in ("ann", "bob"):
        (work / name).mkdir(parents=True)
        (work / name / "note.txt").write_text(f"of {name}")
        if os.geteuid() == 0:
            os.chown(work / name, *OWNER)
    (tmp_path / "secret.txt").write_text("of the gateway")
    checks = Checks(workspace=str(work / "{principal}"))
    hosted = {"isolated": True, "env": {"PATH": "/usr/bin:/bin", "KEY": "for the agent"}}
    command = ["/usr/bin/python3", "-c", PROBE]
    async with (
        hosting(tmp_path / "state", command, hosted=hosted, checks=checks) as house,
        house.visit("ann") as ann,
        house.visit("bob") as bob,
    ):
        async with asyncio.timeout(PATIENCE):
            hers, his = await ann.new_session(work / "ann"), await bob.new_session(work / "bob")
            assert "of ann" in await run(ann, hers, "cat note.txt")
            assert "of bob" in await run(bob, his, "cat note.txt")
            assert "for the agent" in await run(ann, hers, "echo $KEY")
            for path in (work / "bob" / "note.txt", tmp_path / "secret.txt", tmp_path / "state" / "gateway.db"):
                assert "No such file" in await run(ann, hers, f"cat {path}")
            await run(ann, hers, "echo mine > new.txt; sleep 1000 >new.log 2>&1 & id -u > who")
            assert (work / "ann" / "new.txt").read_text() == "mine\n"
            assert (work / "ann" / "who").read_text() != "0\n"
            assert "sleep" not in await run(bob, his, "cat /proc/*/cmdline")


async def test_an_isolated_agent_changes_no_file_that_has_a_hard_link_outside(tmp_path: Path) -> None:
    mine, store = tmp_path / "work" / "ann", tmp_path / "store"
    mine.mkdir(parents=True)
    store.write_text("of the store\n")
    os.link(store, mine / "package")
    if os.geteuid() == 0:
        for path in (mine, store):
            os.chown(path, *OWNER)
    checks = Checks(workspace=str(tmp_path / "work" / "{principal}"))
    agent, hosted = ["/usr/bin/python3", "-c", PROBE], {"isolated": True}
    async with (
        hosting(tmp_path / "state", agent, hosted=hosted, checks=checks) as house,
        house.visit("ann") as ann,
    ):
        await run(ann, await ann.new_session(mine), "echo mine >> package")
    assert (mine / "package").read_text() == "of the store\nmine\n"
    assert store.read_text() == "of the store\n"


@pytest.mark.skipif(landlock.version() == 0, reason="the kernel has no Landlock")
async def test_what_is_mounted_by_mistake_is_nothing_to_an_isolated_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hers, his = tmp_path / "work" / "ann", tmp_path / "work" / "bob"
    for place in (hers, his):
        place.mkdir(parents=True)
        (place / "note.txt").write_text(f"of {place.name}")
        if os.geteuid() == 0:
            os.chown(place, *OWNER)
    checks = Checks(workspace=str(tmp_path / "work" / "{principal}"))
    with open_place(his) as place:
        wrap = functools.partialmethod(Sandbox.wrap, strays={"/stray": place})
        monkeypatch.setattr(Sandbox, "wrap", wrap)
        monkeypatch.setattr(Sandbox, "check", no_trial)
        async with (
            hosting(
                tmp_path / "state", ["/usr/bin/python3", "-c", PROBE], hosted={"isolated": True}, checks=checks
            ) as house,
            house.visit("ann") as ann,
        ):
            session = await ann.new_session(hers)
            told = await run(ann, session, "cat note.txt; ls /stray; cat /stray/note.txt; echo mine > /stray/new")
    assert "of ann" in told and told.count("Permission denied") == 3, told
    assert os.listdir(his) == ["note.txt"]


async def no_trial(self: Sandbox, roots: object = ()) -> None:
    """The trial has a stray of its own."""


# What a network of the host's would show: its loopback, its abstract sockets, its list of Unix sockets.
REACHING = """
import socket, sys, urllib.error, urllib.request
def tried(attempt):
    try:
        return attempt()
    except urllib.error.HTTPError as exc:
        return f"{exc.code} {exc.read().decode()}"
    except OSError as exc:
        return type(exc).__name__
def connect(family, address):
    with socket.socket(family) as wire:
        wire.connect(address)
        return "connected"
port, name = int(sys.argv[1]), sys.argv[2]
print("loopback", tried(lambda: connect(socket.AF_INET, ("127.0.0.1", port))))
print("abstract", tried(lambda: connect(socket.AF_UNIX, chr(0) + name)))
print("listed", name in open("/proc/net/unix").read())
for number in (port, port + 1):
    url = f"http://127.0.0.1:{number}/"
    print("proxy", tried(lambda: urllib.request.urlopen(url, timeout=20).read().decode()))
"""


@pytest.mark.parametrize("is_listed", [False, True])
async def test_an_isolated_agent_has_a_network_of_its_own_and_a_proxy_to_listed_hosts(
    tmp_path: Path, is_listed: bool
) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nmodel")
        writer.close()

    name = f"dragoman-{secrets.token_hex(8)}"
    with socket.socket(socket.AF_UNIX) as abstract:
        abstract.bind(f"\0{name}")
        abstract.listen()
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        work = tmp_path / "work" / "{principal}"
        ann_s = tmp_path / "work" / "ann"
        ann_s.mkdir(parents=True)
        (ann_s / "reach.py").write_text(REACHING)
        if os.geteuid() == 0:
            os.chown(ann_s, *OWNER)
        network = [f"127.0.0.1:{port}"] if is_listed else []
        hosted = {"isolated": True, "network": network}
        checks = Checks(workspace=str(work))
        agent = ["/usr/bin/python3", "-c", PROBE]
        async with (
            server,
            hosting(tmp_path, agent, hosted=hosted, checks=checks) as house,
            house.visit("ann", Watcher()) as ann,
        ):
            session = await ann.new_session(ann_s)
            told = await run(ann, session, f"/usr/bin/python3 reach.py {port} {name}")
    assert "loopback ConnectionRefusedError" in told
    assert "abstract ConnectionRefusedError" in told
    assert "listed False" in told
    assert told.count("proxy model") == is_listed
    assert told.count(f"127.0.0.1:{port + 1} is not on the list of --network") == is_listed


THINGS = (
    *("shared memory", "a semaphore", "a queue", "a POSIX queue", "POSIX shared memory", "a temporary file"),
    "an abstract socket",
)
WAYS = ("the list of sockets", "a process", "the memory of a process", "a signal")
# Things that processes of one machine share by name.  Each is made for everybody, so only walls keep others out.
SHARED = """
import ctypes, os, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
name, key = sys.argv[2], int(sys.argv[3])
class Attributes(ctypes.Structure):
    _fields_ = [(field, ctypes.c_long) for field in ("flags", "most", "size", "now", "a", "b", "c", "d")]
def listening():
    wire.bind(chr(0) + name)
    wire.listen()
    return wire.fileno()
def opened(path, flags):
    os.umask(0)
    return os.open(path, flags, 0o666)
def queue(flags):
    return libc.mq_open(f"/{name}".encode(), os.O_RDWR | flags, 0o666, ctypes.byref(Attributes(0, 1, 64)))
def seen(path):
    with open(path, "rb") as file:
        return name.encode() in file.read()
def holders():
    return [int(n) for n in os.listdir("/proc") if n.isdigit() and "hold" in argv_of(n) and name in argv_of(n)]
def argv_of(pid):
    try:
        with open(f"/proc/{pid}/cmdline") as file:
            return file.read().split(chr(0))
    except OSError:
        return []
wire = socket.socket(socket.AF_UNIX)
MADE = {
    "shared memory": lambda: libc.shmget(key, 64, 0o666 | 0o1000),
    "a semaphore": lambda: libc.semget(key, 1, 0o666 | 0o1000),
    "a queue": lambda: libc.msgget(key, 0o666 | 0o1000),
    "a POSIX queue": lambda: queue(os.O_CREAT),
    "POSIX shared memory": lambda: opened(f"/dev/shm/{name}", os.O_CREAT | os.O_RDWR),
    "a temporary file": lambda: opened(f"/tmp/{name}", os.O_CREAT | os.O_RDWR),
    "an abstract socket": listening,
}
REACHED = {
    "shared memory": lambda: libc.shmget(key, 64, 0) >= 0,
    "a semaphore": lambda: libc.semget(key, 1, 0) >= 0,
    "a queue": lambda: libc.msgget(key, 0) >= 0,
    "a POSIX queue": lambda: queue(0) >= 0,
    "POSIX shared memory": lambda: opened(f"/dev/shm/{name}", os.O_RDWR) >= 0,
    "a temporary file": lambda: opened(f"/tmp/{name}", os.O_RDWR) >= 0,
    "an abstract socket": lambda: wire.connect(chr(0) + name) is None,
    "the list of sockets": lambda: seen("/proc/net/unix"),
    "a process": lambda: bool(holders()),
    "the memory of a process": lambda: any(os.open(f"/proc/{pid}/mem", os.O_RDWR) for pid in holders()),
    "a signal": lambda: [os.kill(pid, 0) for pid in holders()][0] is None,
}
def tried(attempt):
    try:
        return attempt()
    except (OSError, IndexError):
        return False
if sys.argv[1] == "hold":
    made = {what: make() for what, make in MADE.items()}
    print("made:", [what for what, id in made.items() if id >= 0], flush=True)
    sys.stdin.read()
    libc.shmctl(made["shared memory"], 0, 0)
    libc.semctl(made["a semaphore"], 0, 0)
    libc.msgctl(made["a queue"], 0, 0)
    libc.mq_unlink(f"/{name}".encode())
    os.unlink(f"/dev/shm/{name}")
    os.unlink(f"/tmp/{name}")
else:
    print("reached:", [what for what, attempt in REACHED.items() if tried(attempt)])
"""


async def test_what_processes_share_by_name_is_not_shared_by_people(tmp_path: Path) -> None:
    """The gateway's machine and Bob's agent have such things: each of them reaches them, and Ann's agent none."""
    name, key = f"dragoman-{secrets.token_hex(8)}", secrets.randbelow(2**30) + 2
    for person in ("ann", "bob"):
        place = tmp_path / "work" / person
        place.mkdir(parents=True)
        (place / "shared.py").write_text(SHARED)
        if os.geteuid() == 0:
            os.chown(place, *OWNER)
    checks = Checks(workspace=str(tmp_path / "work" / "{principal}"))
    agent, hosted = ["/usr/bin/python3", "-c", PROBE], {"isolated": True}
    hold, reach = (f"/usr/bin/python3 shared.py {what} {name} {key}" for what in ("hold", "reach"))
    beginning = (
        f"mkfifo end; sleep 1000 > end 2> log & {hold} < end > held 2>&1 & until [ -s held ]; do :; done; cat held"
    )
    machine = ["/usr/bin/python3", "-c", SHARED]
    with subprocess.Popen(
        [*machine, "hold", name, str(key)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holding:
        assert holding.stdin and holding.stdout
        made = holding.stdout.readline()
        on_machine = subprocess.check_output([*machine, "reach", name, str(key)], text=True)  # noqa: ASYNC221
        async with (
            hosting(tmp_path / "state", agent, hosted=hosted, checks=checks) as house,
            house.visit("ann") as ann,
            house.visit("bob") as bob,
            asyncio.timeout(2 * PATIENCE),
        ):
            hers = await ann.new_session(tmp_path / "work" / "ann")
            his = await bob.new_session(tmp_path / "work" / "bob")
            held = await run(bob, his, beginning)
            his_own = await run(bob, his, reach)
            stolen = await run(ann, hers, reach)
        holding.stdin.close()
    assert all(f"'{thing}'" in made and f"'{thing}'" in on_machine for thing in THINGS)
    # Landlock leaves no queues of POSIX; all else that Bob made he has.
    assert all(f"'{thing}'" in held and f"'{thing}'" in his_own for thing in THINGS if thing != "a POSIX queue")
    assert all(f"'{way}'" in his_own and f"'{way}'" in on_machine for way in WAYS)
    assert "reached: []" in stolen


HOLDING = """
import socket, sys
held = []
while True:
    wire = socket.create_connection(("127.0.0.1", 3128))
    wire.sendall(b"CONNECT")
    wire.settimeout(0.5 if len(held) < int(sys.argv[1]) else None)
    held.append(wire)
    try:
        if not wire.recv(1):
            break
    except TimeoutError:
        continue
open("held", "w").close()
sys.stdin.read()
"""


async def test_the_way_out_of_one_person_is_not_another_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who holds as many connections as there may be holds their own."""
    monkeypatch.setattr(network_proxy, "MOST_CONNECTIONS", 2)
    for name in ("ann", "bob"):
        place = tmp_path / "work" / name
        place.mkdir(parents=True)
        (place / "hold.py").write_text(HOLDING)
        if os.geteuid() == 0:
            os.chown(place, *OWNER)
    checks = Checks(workspace=str(tmp_path / "work" / "{principal}"))
    agent, hosted = ["/usr/bin/python3", "-c", PROBE], {"isolated": True, "network": ["127.0.0.1:9"]}
    asking = "/usr/bin/python3 -c 'import urllib.request as u; u.urlopen(\"http://127.0.0.1:8/\")' 2>&1 | tail -1"
    async with (
        hosting(tmp_path / "state", agent, hosted=hosted, checks=checks) as house,
        house.visit("ann") as ann,
        house.visit("bob") as bob,
    ):
        async with asyncio.timeout(PATIENCE):
            hers, his = (
                await ann.new_session(tmp_path / "work" / "ann"),
                await bob.new_session(tmp_path / "work" / "bob"),
            )
            holding = "mkfifo wait; /usr/bin/python3 hold.py 2 < wait > /dev/null 2>&1 & exec 3<> wait"
            await run(
                ann,
                hers,
                f"({holding}; while [ ! -e held ]; do sleep 0.1; done; sleep 1000) >/dev/null 2>&1 & "
                "while [ ! -e held ]; do sleep 0.1; done",
            )
            assert "403" not in await run(ann, hers, asking)
            assert "403" in await run(bob, his, asking)  # he is heard: the host is not on the list


async def test_rules_do_not_hide_among_more_than_are_protected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isolation, "MOST_RULES", 2)
    for name in ("a", "b", "c"):
        (tmp_path / "work" / name / ".dragoman").mkdir(parents=True)
    if os.geteuid() == 0:
        os.chown(tmp_path / "work", *OWNER)
    place = functools.partial(open_place, tmp_path / "work")
    with pytest.raises(AgentStartError, match=r"has too many files to find the rules"):
        async with isolation.Isolation().reach(["/bin/cat"], place, None):
            """It is not started."""


def test_what_cannot_be_isolated_is_refused_at_once(tmp_path: Path) -> None:
    from dragoman.gateway.gateway import Gateway
    from dragoman.gateway.log.sqlite import SqliteEngine
    from dragoman.testing import Echo

    engine = SqliteEngine(tmp_path)
    with pytest.raises(ValueError, match="not a command"):
        Gateway(engine, {"a": Hosted(target=Echo, isolated=True)}, checks=Checks(workspace="/srv"))
    with pytest.raises(ValueError, match="without a workspace"):
        Gateway(engine, {"a": Hosted(target=["agent"], isolated=True)})
    asyncio.run(engine.close())


@pytest.mark.timeout(900)
@pytest.mark.skipif(os.geteuid() != 0, reason="the tests above were an ordinary user's")
def test_agents_of_an_ordinary_user_are_isolated_too() -> None:
    run_as_ordinary_user(__file__, "-k", "nobody_elses or mistake or hard_link or by_name")
