"""`dragoman gateway verify|backup|export|import`."""

import asyncio
import contextlib
import io
import json
import shutil
import sqlite3
import subprocess
from pathlib import Path

import msgspec
import pytest
from patience import PATIENCE

from dragoman import connect
from dragoman.errors import Error
from dragoman.gateway.log.engine import LogEntry
from dragoman.gateway.log.logs import append, records
from dragoman.gateway.log.session_facts import SessionFacts
from dragoman.gateway.log.sqlite import SqliteEngine
from dragoman.gateway.operations.exchange import exported, imported

from .house import Watcher
from .test_commands import DRAGOMAN, said, served

pytestmark = pytest.mark.usefixtures("nothing_left")


async def run(*arguments: str, input: bytes = b"") -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        *(*DRAGOMAN, "gateway", *arguments),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    async with asyncio.timeout(PATIENCE):
        out, err = await process.communicate(input)
    return process.returncode or 0, out.decode(), err.decode()


async def grown(state: Path) -> None:
    """Two sessions: every byte, something large, and a name that is no plain word."""
    engine = SqliteEngine(state)
    for id in ("one", 'two "\n'):
        lease = await engine.acquire(id, "us", 0)
        frames = [b'{"a":"\xc3\xbc"}', bytes(range(256)), b"x" * 600_000, b""]
        await append(engine, lease, [LogEntry("agent", frame, "ann", "seat") for frame in frames], 0)
        await append(engine, await engine.acquire(id, "us", 0), [LogEntry("client", b"later")], 4)
        facts = SessionFacts(
            "testy", "ann", "/", msgspec.Raw(b'{"cwd" : "/"}'), updated=5.25, roles={"bob": "viewer"}
        )
        await engine.put_fact("session", id, value=msgspec.json.encode(facts))
        for who in ("ann", "bob"):
            await engine.put_fact("seat", who, id, value=b"")
    await engine.close()


async def everything(state: Path) -> object:
    engine = SqliteEngine(state)
    facts = {kind: {key: fact.value async for key, fact in engine.facts(kind)} for kind in ("session", "seat")}
    logs = {id: [record async for record in records(engine, id)] for (id,) in facts["session"]}
    await engine.close()
    return facts, logs


async def test_exported_sessions_are_the_same_where_they_are_imported_byte_for_byte(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    await grown(here)
    code, lines, _ = await run("export", "--state", str(here))
    assert code == 0 and all(json.loads(line) for line in lines.splitlines())
    code, taken, complaint = await run("import", "-", "--state", str(there), input=lines.encode())
    assert (code, taken) == (0, 'one\ntwo "\n\n'), complaint
    assert await everything(there) == await everything(here)
    assert (await run("export", "--state", str(there)))[1] == lines
    code, _, complaint = await run("import", "-", "--state", str(there), input=lines.encode())
    assert code == 1 and "already" in complaint
    assert (await run("verify", "--state", str(there)))[1] == "2 sessions, all whole\n"


async def test_an_export_that_is_not_whole_is_not_taken(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    await grown(here)
    engine = SqliteEngine(here)
    whole = [line + b"\n" async for line in exported(engine, "one")]
    await engine.close()
    engine = SqliteEngine(there)
    for lines in [
        whole[:-1],
        whole[1:],
        [*whole[:3], *whole[4:]],
        [*whole[:2], whole[2].replace(b"agent", b"client"), *whole[3:]],
        [*whole, b"something\n"],
        [whole[0], *whole[2:]],
        [*whole, *whole],
        [whole[0].replace(b'Gateway":1', b'Gateway":9'), *whole[1:]],
        [whole[0], b"{}\n", *whole[2:]],
        [],
    ]:
        with pytest.raises(Error, match=r"imported|already|no exported session"):
            [id async for id in imported(engine, io.BytesIO(b"".join(lines)))]
    await engine.close()
    assert await everything(there) == ({"session": {}, "seat": {}}, {})
    code, _, complaint = await run("import", "-", "--state", str(there), input=whole[0])
    assert (code, complaint.count("\n")) == (1, 1)


async def test_a_changed_byte_is_found_exported_by_name_and_told_where_it_is_imported(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    await grown(here)
    with contextlib.closing(sqlite3.connect(here / "gateway.db", isolation_level=None)) as db:
        db.execute("UPDATE records SET frame = ? WHERE session = 'one' AND number = 1", (b'{"a":"o"}',))
        db.execute("UPDATE blobs SET data = zeroblob(600000)")
        db.execute("UPDATE facts SET value = ? WHERE kind = 'seat' AND key LIKE 'bob%one'", (b"x",))
    code, found, _ = await run("verify", "--state", str(here))
    assert code == 1
    assert "one: record 1 is damaged or missing" in found
    assert "one: record 3 is damaged: what is kept beside the log" in found
    assert "its seat is damaged" in found
    code, lines, complaint = await run("export", "one", "--state", str(here))
    assert code == 1 and "2 records are damaged" in complaint
    assert [json.loads(line)["damaged"] for line in lines.splitlines() if '"damaged"' in line] == [1, 3]
    code, _, complaint = await run("import", "-", "--state", str(there), input=lines.encode())
    assert code == 0, complaint
    _, logs = await everything(there)  # type: ignore[misc]
    assert b"[Damaged: record 1 " in logs["one"][0].entry.frame
    assert logs["one"][1].entry.frame == bytes(range(256))


async def test_a_running_gateway_is_verified_exported_and_backed_up_and_its_copy_goes_on(tmp_path: Path) -> None:
    state, copy = tmp_path / "state", tmp_path / "copy"
    async with served(state) as (url, _):
        headers = {"Authorization": f"Bearer {(state / 'local.token').read_text()}"}
        watcher = Watcher()
        async with connect(url, watcher, headers=headers), asyncio.timeout(PATIENCE):
            session = await watcher.new_session(tmp_path)
            await session.prompt("echo before")
            await said("gateway", "backup", str(copy), "--state", str(state))
            assert await said("gateway", "verify", "--state", str(state)) == "1 session, all whole\n"
            assert "before" in await said("gateway", "export", "--state", str(state))
            code, _, complaint = await run("import", "-", "--state", str(state), input=b"x")
            assert code == 1 and "another gateway uses" in complaint
            await session.prompt("echo after")
        told = list(watcher.told[session.id])
    for name in ("tokens.json", "local.token"):
        shutil.copy(state / name, copy / name)
    async with served(copy) as (url, _):
        watcher = Watcher()
        async with connect(url, watcher, headers=headers), asyncio.timeout(PATIENCE):
            session = await watcher.load_session(session.id, tmp_path)
            again = [frame for frame in watcher.told[session.id] if b"user_message" not in frame]
            assert again and again == told[: len(again)]
            assert (await session.prompt("echo on")).stop_reason == "end_turn"


@pytest.mark.parametrize("action", [("verify",), ("export",), ("backup", "x"), ("expire", "--keep-days", "1")])
async def test_a_directory_without_a_gateway_is_left_as_it_is(tmp_path: Path, action: tuple[str, ...]) -> None:
    code, _, complaint = await run(*action, "--state", str(tmp_path))
    assert code == 1 and "there is no gateway's log in" in complaint
    assert not list(tmp_path.iterdir())
