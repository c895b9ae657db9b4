"""Disks that are full, break or are read by others; processes that share a store."""

import asyncio
import contextlib
import os
import random
import resource
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from patience import PATIENCE
from torture.store_faults import SCENARIOS, Site, suffer_all, works
from torture.store_power import fail_power

from dragoman import Agent, Session, Turn, connect
from dragoman import schema as s
from dragoman.errors import InternalError, InvalidRequest
from dragoman.store import Store, durable
from dragoman.store.database.connecting import connect_reader
from dragoman.store.database.database import Database

from .conftest import Notebook

pytestmark = pytest.mark.usefixtures("nothing_left")


async def heard(session: Session, prompt: str) -> tuple[list[str], Exception | None]:
    """What was said in a turn before it ended, and how it failed if it did."""
    texts = [u.content.text for u in session.backlog() if isinstance(u, s.AgentMessageChunk)]
    try:
        async with asyncio.timeout(30):
            async for event in session.prompt(prompt):
                if isinstance(event, s.AgentMessageChunk):
                    texts.append(event.content.text)  # type: ignore[union-attr]
    except InternalError as exc:
        return texts, exc
    return texts, None


async def told(notebook: type[Agent], id: str) -> list[str]:
    async with connect(notebook) as client:
        updates = (await client.load_session(id)).backlog()
        return [u.content.text for u in updates if isinstance(u, s.AgentMessageChunk)]  # type: ignore[union-attr]


def pages(limit: int) -> Callable[[Database], object]:
    return lambda db: db.db.execute(f"PRAGMA max_page_count = {limit}").fetchall()


async def test_a_full_disk_ends_the_turn_with_an_error_and_is_no_problem_once_there_is_room(
    store: Store, notebook: type[Agent]
) -> None:
    async with connect(notebook) as client:
        session = await client.new_session()
        before, _ = await heard(session, "say before")
        await store.run(pages(1))  # SQLite makes it as many as there are
        during, failure = await heard(session, "many 20000")
        assert failure and "full" in str(failure)
        assert len(during) < 20000
        assert [one.session_id for one in await client.list_sessions()] == [session.id]
        again, failure = await heard(session, "say " + "no" * 50_000)
        assert failure
        assert not any("nono" in text for text in again)
        await store.run(pages(1_000_000))
        await session.set_mode("code")
        after, failure = await heard(session, "say after")
        assert (after[-1], failure) == ("after", None)
        live = before + during + again + after
    assert await told(notebook, session.id) == live


async def test_what_a_full_disk_did_not_take_is_not_missed_later(tmp_path: Path) -> None:
    async with Store(tmp_path) as store, connect(durable(Notebook, store)) as client:
        session = await client.new_session()
        await heard(session, "say before")
        await store.run(pages(1))
        _, failure = await heard(session, "many 20000")
        assert failure
        await session.close()
    with contextlib.closing(Database(tmp_path)) as db:
        assert list(db.verify()) == []


async def test_what_an_author_kept_while_the_disk_was_full_is_stored_with_the_next_turn(store: Store) -> None:
    class Keeping(Agent):
        async def answer(self, turn: Turn) -> None:
            turn.session.state[turn.text] = True
            await turn.say(" ".join(turn.session.state))
            if turn.text == "second":
                await turn.say("x" * 300_000)

    keeping = durable(Keeping, store)
    async with connect(keeping) as client:
        session = await client.new_session()
        await heard(session, "first")
        await store.run(pages(1))
        _, failure = await heard(session, "second")
        assert failure
        await store.run(pages(1_000_000))
        assert (await heard(session, "third"))[1] is None
    async with connect(keeping) as client:
        resumed = await client.resume_session(session.id)
        assert (await heard(resumed, "after"))[0][0].split() == ["first", "second", "third", "after"]


async def test_a_session_that_cannot_be_stored_is_not_made(store: Store, notebook: type[Agent]) -> None:
    async with connect(notebook) as client:
        session = await client.new_session()
        await heard(session, "many 100")
        await store.run(pages(1))
        with pytest.raises(InternalError, match="full"):
            for _ in range(200):
                await client.new_session()
        await store.run(pages(1_000_000))
        await client.new_session()


@contextlib.contextmanager
def no_file_longer_than(size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def test_after_an_error_of_the_disk_nothing_is_shown_that_is_not_stored(
    tmp_path: Path, store: Store, notebook: type[Agent]
) -> None:
    async with connect(notebook) as client:
        session = await client.new_session()
        before, _ = await heard(session, "many 100")
        with no_file_longer_than((store.path / "sessions.db-wal").stat().st_size + 50_000):
            during, failure = await heard(session, "many 20000")
        assert failure and "I/O" in str(failure)
        assert len(during) < 20000
        after, failure = await heard(session, "say after")
        assert (after[-1], failure) == ("after", None)
    assert await told(notebook, session.id) == before + during + after


async def test_a_store_that_cannot_be_read_is_not_called_damaged(store: Store, notebook: type[Agent]) -> None:
    async with connect(notebook) as client:
        session = await client.new_session()
        await heard(session, "say kept")
        file, away = store.path / "sessions.db", store.path / "away"
        file.rename(away)
        file.mkdir()
        with pytest.raises(InternalError, match="Is a directory"):
            await client.load_session(session.id)
        file.rmdir()
        away.rename(file)
        assert len([*(await client.load_session(session.id)).backlog()]) > 1
    assert not list(store.path.glob("damaged-*"))


@pytest.mark.parametrize("names", [["sessions.db"], ["sessions.db", "sessions.db-wal", "sessions.db-shm"]])
async def test_a_store_deleted_while_it_is_in_use_is_noticed_and_written_again(
    store: Store, notebook: type[Agent], names: list[str]
) -> None:
    async with connect(notebook) as client:
        session = await client.new_session()
        before, _ = await heard(session, "say before")
        for name in names:
            (store.path / name).unlink()
        after, failure = await heard(session, "say after")
        assert failure is None
    assert await told(notebook, session.id) == before + after
    assert not list(store.path.glob("damaged-*"))


async def test_a_store_emptied_while_it_is_in_use_says_what_is_missing(tmp_path: Path) -> None:
    notebook = durable(Notebook, Store(tmp_path))
    async with connect(notebook) as client:
        session = await client.new_session()
        await heard(session, "many 3000")
    async with connect(notebook) as client:  # most of it is no longer in the log beside the database
        session = await client.resume_session(session.id)
        (tmp_path / "sessions.db").write_bytes(b"")
        await heard(session, "say after")
    words = await told(notebook, session.id)
    assert "after" in words and any("amaged" in word for word in words)


async def test_the_other_sessions_of_a_connection_go_on_when_one_fails(store: Store, notebook: type[Agent]) -> None:
    async with connect(notebook) as client:
        one, other = await client.new_session(), await client.new_session()
        await store.run(pages(1))
        _, failure = await heard(one, "many 20000")
        assert failure
        await store.run(pages(1_000_000))
        assert (await heard(other, "say fine"))[0] == ["fine"]


async def test_files_are_for_their_owner_alone_whatever_the_umask(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        async with connect(durable(Notebook, Store(tmp_path / "store"))) as client:
            await (await client.new_session()).prompt("say x")
            modes = {path: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "store").rglob("*")}
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "store").stat().st_mode) == 0o700
    assert len(modes) >= 6
    assert {mode for path, mode in modes.items() if path.is_file()} == {0o600}
    assert {mode for path, mode in modes.items() if path.is_dir()} == {0o700}


WATERMARK = "watermark-which-must-not-be-found"


async def test_of_a_deleted_session_no_byte_is_left_in_any_file(store: Store, notebook: type[Agent]) -> None:
    async with connect(notebook) as client:
        kept = await client.new_session()
        for round in range(3):
            session = await client.new_session(f"/{WATERMARK}")
            await session.prompt(f"title {WATERMARK}\nsay {WATERMARK}\n" + f"say {WATERMARK * 500}\n" * 20)
            await kept.prompt(f"say between {round}\nmany 200")
            forked = await session.fork(f"/{WATERMARK}")
            assert WATERMARK.encode() in contents(store.path)
            await session.delete()
            await forked.delete()
            assert WATERMARK.encode() not in contents(store.path)
            assert session.id.encode() not in contents(store.path)
            assert [one.session_id for one in await client.list_sessions()] == [kept.id]
    assert WATERMARK.encode() not in contents(store.path)
    assert len(await told(notebook, kept.id)) == 603


async def test_the_disk_comes_back_when_a_session_is_deleted(tmp_path: Path) -> None:
    notebook = durable(Notebook, Store(tmp_path))
    async with connect(notebook) as client:
        small, large = await client.new_session(), await client.new_session()
        await heard(small, "say kept")
        await heard(large, "\n".join(["say " + "x" * 100_000] * 50))
    assert (tmp_path / "sessions.db").stat().st_size > 5_000_000
    async with connect(notebook) as client:
        await client.agent.delete_session(s.DeleteSessionRequest(session_id=large.id))
    assert (tmp_path / "sessions.db").stat().st_size < 200_000
    assert "kept" in await told(notebook, small.id)


async def test_a_deletion_that_a_reader_kept_from_being_complete_is_completed_by_the_next(
    store: Store, notebook: type[Agent]
) -> None:
    async with connect(notebook) as client:
        session = await client.new_session()
        await session.prompt(f"say {WATERMARK}")
        await store.run(lambda db: db.db.execute("PRAGMA busy_timeout = 50").fetchall())
        reader = connect_reader(store.path / "sessions.db")
        with contextlib.closing(reader):
            reader.execute("BEGIN")
            reader.execute("SELECT * FROM sessions").fetchall()
            with pytest.raises(InternalError, match="delete it again"):
                await session.delete()
            with pytest.raises(InternalError, match="delete it again"):
                await client.agent.delete_session(s.DeleteSessionRequest(session_id=session.id))
        await client.agent.delete_session(s.DeleteSessionRequest(session_id=session.id))
        assert WATERMARK.encode() not in contents(store.path)


def contents(path: Path) -> bytes:
    return b"\0".join(file.read_bytes() for file in path.rglob("*") if file.is_file())


OTHER = """
import asyncio, sys
from dragoman import connect
from dragoman.store import Store, durable
from store.conftest import Notebook

async def main():
    async with connect(durable(Notebook, Store(sys.argv[1]))) as client:
        session = await client.new_session()
        for number in range(int(sys.argv[2])):
            await session.prompt(f"say {number}\\nmany 20")
        print(session.id, flush=True)
        if len(sys.argv) > 3:
            await asyncio.Event().wait()

asyncio.run(main())
"""


def other(path: Path, prompts: int, *more: str) -> "subprocess.Popen[str]":
    """Another process with a session of its own in the same store."""
    argv = [sys.executable, "-c", OTHER, str(path), str(prompts), *more]
    tests = str(Path(__file__).parent.parent)
    return subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": tests})


async def test_a_live_process_keeps_its_session_and_a_dead_one_does_not(
    store: Store, notebook: type[Agent]
) -> None:
    process = other(store.path, 1, "and wait")
    assert process.stdout
    with process, contextlib.closing(process.stdout):
        id = (await asyncio.to_thread(process.stdout.readline)).strip()
        async with connect(notebook) as client:
            with pytest.raises(InvalidRequest, match=f"open in another process .{process.pid}.*close it there"):
                await client.load_session(id)
            process.kill()
            await asyncio.to_thread(process.wait)
            session = await client.load_session(id)
            assert len([*session.backlog()]) > 20
            assert (await heard(session, "say mine"))[0] == ["mine"]


async def test_processes_share_a_store_and_each_finds_all_its_own(store: Store, notebook: type[Agent]) -> None:
    processes = [other(store.path, 15) for _ in range(4)]
    ids = []
    for process in processes:
        out, _ = await asyncio.to_thread(process.communicate, timeout=PATIENCE)
        assert process.returncode == 0
        ids.append(out.strip())
    for id in ids:
        texts = await told(notebook, id)
        assert [text for text in texts if text.isdigit()] == [str(number) for number in range(15)]
        assert len(texts) == 15 * 21
    async with connect(notebook) as client:
        assert {one.session_id for one in await client.list_sessions()} == set(ids)


@pytest.mark.skipif(not works(), reason="strace cannot trace here")
@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_what_a_failing_call_or_the_end_keeps_from_being_stored_is_not_shown(
    scenario: str, tmp_path: Path
) -> None:
    site = await Site(tmp_path).prepared()
    faults = random.Random(6800).sample(await site.faults(scenario), 4)
    print(dict(await suffer_all(faults, site)))


@pytest.mark.skipif(not works(), reason="strace cannot trace here")
def test_400_power_failures_take_nothing_that_was_shown() -> None:
    assert fail_power(400, seed=62)["updates"] > 4000
