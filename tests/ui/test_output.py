"""Nothing a peer says acts on the terminal it is shown on, whichever command shows it and whatever went wrong."""

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from at_terminal import PEERS, AtTerminal, peer
from hypothesis import given
from hypothesis import strategies as st
from patience import PATIENCE
from peers.vandal import EVIL, LINES

import dragoman
from dragoman import Agent, Client, Turn, connect
from dragoman.gateway.access.tokens import add_token
from dragoman.host.audit import AuditLog
from dragoman.store import Store, durable
from dragoman.store.database.database import Database
from dragoman.ui.output import defused

SOURCE = Path(dragoman.__file__).parent
MANY = [sys.executable, str(PEERS / "many_commands.py")]

# The only sequences a terminal may be sent: our colours, what draws a line anew, and that pastes be marked or not.
OURS = re.compile(
    r"\x1b\[(?:0|[1-4]|3[1-6])(?:;(?:[1-4]|3[1-6]))*m|\x1b\[[0-9]{1,2}A\r\x1b\[J|\x1b\[[0-9]{1,3}D\x1b\[K"
    r"|\r?\x1b\[2K|\x1b\[\?2004[hl]"
)
ACTS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")

STEPS = [
    *("dies before anything is said", "dies at once", "refuses to greet", "opens no session"),
    *("wants a login", "fails in the turn", "dies in the turn", "talks nonsense"),
    "stops for a reason of its own",
]


def acting(raw: str) -> list[str]:
    """What a terminal would have obeyed of what it was sent, each with what stands around it."""
    left = OURS.sub("", raw).replace("\r\n", "\n")
    return [left[max(0, found.start() - 30) : found.end() + 20] for found in ACTS.finditer(left)]


def shown(commands: list[list[str]], cwd: Path) -> list[str]:
    """What each command shows on a terminal, all of them run by one process."""
    with AtTerminal(json.dumps(commands), cwd=cwd, program=MANY) as terminal:
        for number in range(len(commands)):
            terminal.see(f"end of {number}: ")
        assert terminal.end() == 0
        return re.split(r"end of [0-9]+: [0-9]+\r\n", terminal.raw)[:-1]


def run(step: str, *options: str) -> list[str]:
    return ["run", "--agent", peer("vandal", f"'{step}'"), "--permissions", "allow-reads", *options, "hello"]


def test_a_run_shows_what_its_agent_says_and_obeys_none_of_it(tmp_path: Path) -> None:
    commands = [run(step, *form) for step in STEPS for form in ((), ("--json",))]
    wrong = [("--mode", "none"), ("--set", "none=1"), ("--set", "known=1"), ("--session", EVIL)]
    commands += [run("", *options) for options in wrong]
    for command, raw in zip(commands, shown(commands, tmp_path), strict=True):
        assert "owned" in raw, (command, raw)
        assert acting(raw) == [], command


def test_a_question_shows_what_the_agent_asks_and_obeys_none_of_it(tmp_path: Path) -> None:
    with AtTerminal(*run("asks"), cwd=tmp_path) as terminal:
        assert "owned" in terminal.see("Press a key:")
        terminal.press("n")
        assert terminal.end() == 4
    assert acting(terminal.raw) == []


def test_what_an_agent_says_of_its_end_stands_apart_from_what_we_say(tmp_path: Path) -> None:
    (raw,) = shown([run("dies at once")], tmp_path)
    first, *further = raw.replace("\r\n", "\n").rstrip("\n").split("\n")
    assert first == "dragoman: the agent exited with status 3 before it answered initialize; its stderr ended with:"
    assert further[0].endswith("colours red")  # its colours say nothing
    assert all(line.startswith("  ") for line in further)


class Echo(Agent):
    async def answer(self, turn: Turn) -> None:
        await turn.say(turn.text)
        async with turn.tool(LINES, kind="edit") as call:
            await call.text(LINES)


@pytest.fixture
async def kept(tmp_path: Path, home: Path) -> list[list[str]]:
    """The commands that show agents, sessions, tokens and logs, all of which hold what acts on terminals."""
    entry = {"title": LINES, "command": f"x{EVIL}", "install": LINES}
    table = "\n".join(f"{name} = {json.dumps(value)}" for name, value in entry.items())
    text = f"[{json.dumps(f'evil{EVIL}')}]\n{table}\n".replace("\x7f", "\\u007f")
    (home / "config" / "dragoman").mkdir(parents=True)
    (home / "config" / "dragoman" / "agents.toml").write_text(text)
    store = tmp_path / "store"
    async with connect(durable(Echo, Store(store))) as client:
        session = await client.new_session(tmp_path)
        await session.prompt(LINES)
    database = Database(store)
    database.adopt(f"id{EVIL}", [b for part in database.lines(session.id, 1) for b in part])
    database.close()
    add_token(tmp_path / "tokens.json", EVIL, "ann")
    log = AuditLog(tmp_path / "audit")
    log.append({"event": EVIL, "why": LINES, "argv": [LINES]})
    log.close()
    (tmp_path / "broken").write_text(f"{LINES}\n")
    where = ["--store", str(store)]
    return [
        ["agents", "list"],
        ["agents", "show", f"evil{EVIL}"],
        ["agents", "show", f"nobody{EVIL}"],
        ["setup", "zed", "--agent", f"evil{EVIL}"],
        ["setup", "neovim", "--agent", f"evil{EVIL}"],
        ["sessions", "list", *where],
        ["sessions", "list", "--json", *where],
        ["sessions", "show", session.id, *where],
        ["sessions", "show", f"nobody{EVIL}", *where],
        ["sessions", "export", session.id, *where],
        ["sessions", "import", str(tmp_path / "broken"), "--id", EVIL, *where],
        ["sessions", "verify", *where, f"{EVIL}"],
        ["sessions", "delete", EVIL, *where],
        ["audit", str(tmp_path / "audit")],
        ["audit", "--verify", str(tmp_path / "broken")],
        ["audit", EVIL],
        ["gateway", "tokens", "list", "--state", str(tmp_path)],
        ["gateway", "tokens", "revoke", f"nobody{EVIL}", "--state", str(tmp_path)],
        ["translate", "--", sys.executable, str(PEERS / "vandal.py"), "dies before anything is said"],
        ["new", EVIL],
        [EVIL],
    ]


async def test_every_command_shows_what_it_was_given_and_obeys_none_of_it(
    kept: list[list[str]], tmp_path: Path
) -> None:
    for command, raw in zip(kept, await asyncio.to_thread(shown, kept, tmp_path), strict=True):
        assert acting(raw) == [], command
        assert ("owned" in raw) == ("broken" not in str(command)), (command, raw)


@asynccontextmanager
async def rude_server() -> AsyncIterator[str]:
    """A server whose every answer is a refusal in words that act on terminals."""

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        reason = EVIL.replace("\r", "")
        head = f"HTTP/1.1 403 {reason}\r\nContent-Type: text/plain\r\nConnection: close"
        writer.write(f"{head}\r\nContent-Length: {len(LINES.encode())}\r\n\r\n{LINES}".encode())
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}/acp"


async def test_a_server_that_refuses_acts_on_no_terminal(tmp_path: Path) -> None:
    async with rude_server() as place:
        commands = [["run", "--agent", f"{scheme}://{place}", "hello"] for scheme in ("http", "ws")]
        for command, raw in zip(commands, await asyncio.to_thread(shown, commands, tmp_path), strict=True):
            assert raw.startswith("dragoman: "), (command, raw)
            assert acting(raw) == [], command


@pytest.mark.parametrize("form", ["text", "json"])
async def test_a_gateway_and_who_looks_at_its_sessions_are_safe_from_its_agents(form: str, tmp_path: Path) -> None:
    state = tmp_path / "state"
    agent = f"vandal={peer('vandal', 'talkative')}"
    options = ("--listen", "127.0.0.1:0", "--state", str(state), "--workspace", str(tmp_path), "--log", form)

    def follow() -> list[str]:
        with AtTerminal("gateway", "attach", session.id, "--state", str(state), cwd=tmp_path) as follower:
            follower.see("agent_message_chunk")
            follower.see("usage_update")
        return [follower.raw, *shown([["gateway", "sessions", "--state", str(state)]], tmp_path)]

    with AtTerminal("serve", "--agent", agent, *options, cwd=tmp_path) as serving:
        await asyncio.to_thread(serving.see, "/acp")
        url = re.findall(r"ws://\S+", serving.screen)[-1]
        headers = {"Authorization": f"Bearer {(state / 'local.token').read_text()}"}
        async with asyncio.timeout(PATIENCE), connect(url, client := Client(), headers=headers):
            session = await client.new_session(tmp_path)
            await session.prompt("hello")
            seen = await asyncio.to_thread(follow)
        serving.press("\x03")
        await asyncio.to_thread(serving.end)
    assert [acting(raw) for raw in (serving.raw.replace("^C", ""), *seen)] == [[], [], []]


def test_a_traceback_that_quotes_a_peer_acts_on_no_terminal(tmp_path: Path) -> None:
    program = f"from dragoman.ui.output import install; install(); raise ValueError({LINES!r})"
    with AtTerminal(cwd=tmp_path, program=[sys.executable, "-c", program]) as terminal:
        assert terminal.end() == 1
    assert "owned" in terminal.raw
    assert acting(terminal.raw) == []


def test_bytes_take_the_same_way(tmp_path: Path) -> None:
    data = LINES.encode()
    program = f"""
import sys
from dragoman.ui.output import install
install()
for byte in {data!r}:
    sys.stderr.buffer.write(bytes([byte]))
sys.stdout.buffer.write({data!r})
"""
    with AtTerminal(cwd=tmp_path, program=[sys.executable, "-c", program]) as terminal:
        assert terminal.end() == 0
    assert terminal.raw.replace("\r\n", "\n") == defused(LINES) * 2
    piped = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert (piped.stdout, piped.stderr.decode()) == (data, defused(LINES))


@given(st.text())
def test_what_was_made_safe_once_is_made_safe_no_further(text: str) -> None:
    safe = defused(text)
    assert defused(safe) == safe
    assert not ACTS.search(safe)


def test_only_one_module_reaches_the_terminal_itself() -> None:
    """Whoever wrote to a stream's bytes, to its descriptor, or to the stream of the start, would go past it."""
    past = re.compile(r"sys\.std(?:out|err)\.buffer|sys\.__std\w+__|os\.write\([12],|/dev/(?:tty|stdout|stderr)")
    found = {str(path.relative_to(SOURCE)) for path in SOURCE.glob("**/*.py") if past.search(path.read_text())}
    # Programs at the other end of our pipes, one that tries what a sandbox lets it do, and the wire over stdin and
    # stdout, which looks whether this process was started with them.
    others = {
        "coder/search/process.py",
        "testing/rogue/agent.py",
        "testing/script.py",
        "host/terminals/sandbox/escapes.py",
    }
    others |= {"transports/stdio.py", "reviewer/parsing.py"}
    # What asks the terminal about itself, and what draws a picture there: in sequences of our own alone.
    others |= {"ui/tui/terminal/traits.py", "ui/tui/writing/outside.py"}
    assert found == others
