"""`dragoman sessions`, as a shell runs it."""

import contextlib
import hashlib
import io
import json
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from patience import PATIENCE

from dragoman import Agent, connect
from dragoman import schema as s
from dragoman.errors import InternalError
from dragoman.store import Store, StoreFailure, durable
from dragoman.store.database.database import Database
from dragoman.store.exchange.exchange import imported

from .conftest import Notebook


def run(
    *arguments: str, input: bytes = b"", env: dict[str, str] | None = None
) -> "subprocess.CompletedProcess[bytes]":
    argv = [sys.executable, "-m", "dragoman", "sessions", *arguments]
    return subprocess.run(argv, input=input, capture_output=True, timeout=PATIENCE, check=False, env=env)


@pytest.fixture
async def kept(tmp_path: Path) -> tuple[Path, str]:
    """A store with one session."""
    path = tmp_path / "store"
    async with connect(durable(Notebook, Store(path))) as client:
        session = await client.new_session("/tmp")
        await session.prompt("say hello\ntool Edit a file\nplan one two\nmeta more")
    return path, session.id


def test_sessions_are_listed(kept: tuple[Path, str]) -> None:
    path, id = kept
    done = run("list", "--store", str(path))
    assert done.returncode == 0, done.stderr
    assert id in done.stdout.decode()
    assert "say hello" in done.stdout.decode()
    (line,) = run("list", "--json", "--store", str(path)).stdout.splitlines()
    assert json.loads(line) | {"sessionId": id, "agent": "Notebook", "cwd": "/tmp", "prompts": 1} == json.loads(
        line
    )


def test_the_default_store_is_the_users(kept: tuple[Path, str], tmp_path: Path) -> None:
    path, id = kept
    (tmp_path / "state" / "dragoman").mkdir(parents=True)
    path.rename(tmp_path / "state" / "dragoman" / "sessions")
    done = run("list", env={"XDG_STATE_HOME": str(tmp_path / "state"), "PATH": ""})
    assert id in done.stdout.decode()


def test_a_session_is_shown_as_it_was_said(kept: tuple[Path, str]) -> None:
    path, id = kept
    shown = run("show", id, "--store", str(path)).stdout.decode()
    assert shown.index("> say hello") < shown.index("\nhello\n") < shown.index("[completed] Edit a file")
    assert "- [pending] two" in shown


async def test_an_exported_session_is_the_same_where_it_is_imported(kept: tuple[Path, str], tmp_path: Path) -> None:
    path, id = kept
    exported = run("export", id, "--store", str(path))
    assert all(json.loads(line) for line in exported.stdout.splitlines())
    taken = run("import", "-", "--store", str(tmp_path / "other"), input=exported.stdout)
    assert taken.stdout.decode().strip() == id, taken.stderr
    told = []
    for place in (path, tmp_path / "other"):
        async with connect(durable(Notebook, Store(place))) as client:
            session = await client.load_session(id)
            told.append([*session.backlog()])
            told.append([u for u in [*(await _said(session, "recall"))] if isinstance(u, s.AgentMessageChunk)])
    assert told[0] == told[2]
    assert [u.content for u in told[1]] == [u.content for u in told[3]]
    assert len(told[0]) > 5


async def _said(session: object, prompt: str) -> list[object]:
    return [event async for event in session.prompt(prompt)]  # type: ignore[attr-defined]


def test_an_exported_session_that_is_not_whole_is_refused(kept: tuple[Path, str], tmp_path: Path) -> None:
    path, id = kept
    exported = run("export", id, "--store", str(path)).stdout
    with contextlib.closing(Database(tmp_path / "other")) as db:
        for broken in (
            exported[:-20],
            b"\n".join(exported.splitlines()[:-1]),
            exported.replace(b"hello", b"hullo", 1),
            exported + b'{"update":{}}\n',
            b"",
            b"nonsense\n",
            b'{"dragomanSession":99,"sessionId":"x"}\n',
        ):
            with pytest.raises(StoreFailure):
                imported(db, io.BytesIO(broken))
        assert not list(db.summaries())
    done = run("import", "-", "--store", str(tmp_path / "other"), input=exported[:-20])
    assert done.returncode == 1
    assert done.stderr.startswith(b"dragoman: ")
    assert done.stderr.count(b"\n") == 1
    assert b"already" in run("import", "-", "--store", str(path), input=exported).stderr
    assert run("import", "-", "--id", "sess_copy", "--store", str(path), input=exported).returncode == 0


@pytest.mark.parametrize(
    "line",
    [
        b'{"update":5}',
        b'{"update":{"x":' + b"[" * 200 + b"]" * 200 + b"}}",
        b'{"update":{"x":"\xff"}}',
        b'{"notification":{}}',
        b'{"notification":{"sessionId":"another","update":{}}}',
        b'{"event":{"event":"unheard-of"}}',
        b'{"event":{"event":"prompted","turn":"t","prompt":[5]}}',
        b'{"state":[]}',
        b'{"update":{},"event":{}}',
        b'{"something":{}}',
        b"[]",
    ],
)
def test_what_no_session_would_say_is_not_imported(tmp_path: Path, line: bytes) -> None:
    end = json.dumps({"lines": 1, "sha256": hashlib.sha256(line).hexdigest()}).encode()
    source = io.BytesIO(b'{"dragomanSession":1,"sessionId":"sess_x"}\n' + line + b"\n" + end)
    with contextlib.closing(Database(tmp_path)) as db:
        with pytest.raises(StoreFailure, match="line 2 does not belong to a session"):
            imported(db, source)
        assert not list(db.summaries())


def test_an_id_that_would_move_the_cursor_is_written_out_wherever_it_is_printed(tmp_path: Path) -> None:
    """An exported session comes from anywhere, and its id is whatever it says."""
    store, id = tmp_path / "store", "sess\x1b[2J\x1b]0;gone\x07\nroot 2026 \u202e"
    line = b'{"update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"hello"}}}'
    end = json.dumps({"lines": 1, "sha256": hashlib.sha256(line).hexdigest()}).encode()
    first = json.dumps({"dragomanSession": 1, "sessionId": id}).encode()
    taken = run("import", "-", "--store", str(store), input=b"\n".join((first, line, end)))
    assert taken.returncode == 0, taken.stderr
    listed = run("list", "--store", str(store))
    with contextlib.closing(sqlite3.connect(store / "sessions.db")) as db, db:
        db.execute("UPDATE records SET body = x'ff'")
    for done in (taken, listed, run("verify", "--store", str(store)), run("list", "--store", str(store))):
        said = (done.stdout + done.stderr).decode()
        assert "sess" in said
        assert not {*said} & {"\x1b", "\x07", "\u202e"}, said
        assert "\nroot" not in said
    shown = run("show", id, "--store", str(store))
    assert b"\x1b" not in shown.stdout + shown.stderr


IMPORTING = """
import re, sys
from dragoman.cli import main
code = main(["sessions", "import", "-", "--store", sys.argv[1]])
print(int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) // 1024)
sys.exit(code)
"""


def test_a_long_session_is_imported_in_little_memory(tmp_path: Path) -> None:
    exported, digest = tmp_path / "exported", hashlib.sha256()
    chunk = '{"update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"%s"}}}' % (
        "x" * 20_000
    )
    lines = ['{"event":{"event":"opened","agent":"Notebook","cwd":"/"}}', *[chunk] * 2_000]
    with exported.open("w") as file:
        file.write('{"dragomanSession":1,"sessionId":"sess_long"}\n')
        for line in lines:
            digest.update(line.encode())
            file.write(f"{line}\n")
        file.write(json.dumps({"lines": len(lines), "sha256": digest.hexdigest()}) + "\n")
    argv = [sys.executable, "-c", IMPORTING, str(tmp_path / "store")]
    with subprocess.Popen(["cat", exported], stdout=subprocess.PIPE) as cat:  # a pipe cannot be read twice
        done = subprocess.run(argv, stdin=cat.stdout, capture_output=True, text=True, timeout=PATIENCE, check=True)
    id, megabytes = done.stdout.split()
    assert id == "sess_long"
    assert int(megabytes) < 50, done.stdout  # the session alone has 40
    (line,) = run("list", "--json", "--store", str(tmp_path / "store")).stdout.splitlines()
    assert json.loads(line)["lines"] == 2_001


def test_a_store_is_verified(kept: tuple[Path, str]) -> None:
    path, id = kept
    done = run("verify", "--store", str(path))
    assert (done.returncode, done.stdout) == (0, b"1 session, all whole\n")
    data = (path / "sessions.db").read_bytes()
    (path / "sessions.db").write_bytes(data.replace(b"Edit a file", b"Edit a fool"))
    done = run("verify", "--store", str(path))
    assert done.returncode == 1
    assert b"damaged" in done.stdout
    assert id.encode() in done.stdout
    exported = run("export", id, "--store", str(path))
    assert exported.returncode == 1
    assert b'{"damaged":"line' in exported.stdout
    assert exported.stderr.count(b"\n") == 1
    assert b"note 'prompts' (damaged)" in done.stdout


def test_a_deleted_session_is_gone(kept: tuple[Path, str]) -> None:
    path, id = kept
    assert run("delete", id, "--store", str(path)).returncode == 0
    assert run("list", "--store", str(path)).stdout == b""
    again = run("delete", id, "sess_x", "--store", str(path))
    assert (again.returncode, again.stderr.count(b"\n")) == (1, 2)


def test_what_is_not_there_is_said_in_one_line(kept: tuple[Path, str], tmp_path: Path) -> None:
    path, _ = kept
    for arguments in (
        ("show", "sess_x", "--store", str(path)),
        ("list", "--store", str(tmp_path / "nowhere")),
        ("import", str(tmp_path / "nothing"), "--store", str(path)),
    ):
        done = run(*arguments)
        assert done.returncode
        assert done.stderr.count(b"\n") == 1
        assert b"Traceback" not in done.stderr


async def test_a_session_that_is_open_is_not_deleted_under_the_agent(tmp_path: Path) -> None:
    kept: type[Agent] = durable(Notebook, Store(tmp_path / "store"))
    async with connect(kept) as client:
        session = await client.new_session()
        done = run("delete", session.id, "--store", str(tmp_path / "store"))
        assert done.returncode == 1
        assert b"open in another process" in done.stderr
        await session.prompt("say still here")


@pytest.mark.parametrize("action", [("verify",), ("list",), ("show", "x"), ("export", "x"), ("delete", "x")])
def test_a_directory_that_is_no_store_is_left_as_it_is(tmp_path: Path, action: tuple[str, ...]) -> None:
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "a.txt").write_text("dear")
    done = run(*action, "--store", str(tmp_path / "letters"))
    assert done.returncode == 64
    assert b"there is no store at" in done.stderr
    assert [path.name for path in (tmp_path / "letters").iterdir()] == ["a.txt"]


def test_a_store_whose_database_is_gone_is_not_called_whole(kept: tuple[Path, str]) -> None:
    path, _ = kept
    (path / "sessions.db").unlink()
    done = run("verify", "--store", str(path))
    assert done.returncode == 1
    assert b"damaged files" in done.stdout
    assert b"Traceback" not in done.stderr


def test_a_damaged_schema_is_mended_by_the_command_line(kept: tuple[Path, str]) -> None:
    path, id = kept
    file = path / "sessions.db"
    file.write_bytes(file.read_bytes().replace(b"CREATE TABLE records", b"CREATE TABLE rec\xffrds"))
    done = run("list", "--store", str(path))
    assert done.returncode == 0 and id in done.stdout.decode()
    assert b"Traceback" not in done.stderr


async def test_a_store_on_a_read_only_disk_is_listed_shown_exported_and_verified(
    kept: tuple[Path, str], tmp_path: Path, read_only: Callable[[Path], contextlib.AbstractContextManager[None]]
) -> None:
    path, id = kept
    async with connect(durable(Notebook, Store(path))) as client:  # as a killed process leaves it: with its log
        session = await client.resume_session(id)
        await session.prompt("say later")
        shutil.copytree(path, tmp_path / "frozen")
    with read_only(tmp_path / "frozen"):
        store = ("--store", str(tmp_path / "frozen"))
        assert id in run("list", *store).stdout.decode()
        assert "later" in run("show", id, *store).stdout.decode()
        assert b'"later"' in run("export", id, *store).stdout
        assert run("verify", *store).stdout == b"1 session, all whole\n"
        refused = run("delete", id, *store)
        assert refused.returncode == 1 and b"cannot be written" in refused.stderr
        async with connect(durable(Notebook, Store(tmp_path / "frozen"))) as client:
            assert [one.session_id for one in await client.list_sessions()] == [id]
            with pytest.raises(InternalError, match="cannot be written"):
                await client.load_session(id)
