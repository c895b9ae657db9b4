"""T63: stores whose files were damaged at random; a session is told whole, or what is missing, or is refused."""

import asyncio
import logging
import os
import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from dragoman import Agent, Session, Turn, connect
from dragoman import schema as s
from dragoman.errors import RpcError
from dragoman.store import Store, durable

PAGE = 4096
MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None  # it need not be a disk
FILES = ("sessions.db", "sessions.db-wal")
Damaging = Callable[[random.Random, Path, Path], str]


class Chronicler(Agent):
    """Says as much as it is asked to, in words that name their place."""

    async def answer(self, turn: Turn) -> None:
        name, count, size = turn.text.split()
        for number in range(int(count)):
            await turn.say(f"<{name}.{number}>" + "x" * int(size))
        turn.session.state["turns"] = [*turn.session.state.get("turns", []), name]


def damage_stores(count: int, seed: int) -> Counter[str]:
    """Damage so many copies of a store and load all its sessions from each."""
    print(f"store: {count} damaged copies, seed {seed}")
    return asyncio.run(_damage_stores(count, seed))


async def _damage_stores(count: int, seed: int) -> Counter[str]:
    chance, counts = random.Random(seed), Counter[str]()
    logging.getLogger("dragoman").setLevel(logging.CRITICAL)
    try:
        with tempfile.TemporaryDirectory(dir=MEMORY) as directory:
            whole, older = Path(directory) / "whole", Path(directory) / "older"
            told = await _grown(whole, older)
            for _ in range(count):
                copy = Path(directory) / "copy"
                shutil.copytree(whole, copy)
                what = chance.choice(WAYS)(chance, copy, older)
                try:
                    counts.update(await _outcomes(copy, told))
                except BaseException as exc:
                    exc.add_note(what)
                    raise
                shutil.rmtree(copy)
    finally:
        logging.getLogger("dragoman").setLevel(logging.NOTSET)
    return counts


async def _grown(whole: Path, older: Path) -> dict[str, list[str]]:
    """A store as a killed process leaves it, an older state of the same; gives what its sessions say."""
    told: dict[str, list[str]] = {}
    growing = whole.with_name("growing")
    async with connect(durable(Chronicler, Store(growing))) as client:
        for number, (count, size) in enumerate([(3, 10), (150, 100), (20, 2000)]):
            session = await client.new_session()
            told[session.id] = await _spoken(session, number, count, size)
        shutil.copytree(growing, older)
    async with connect(durable(Chronicler, Store(growing))) as client:  # all of that is in the database itself now
        for number, (count, size) in enumerate([(2, 20_000), (1, 1)], 3):
            session = await client.new_session()
            told[session.id] = await _spoken(session, number, count, size)
        first = next(iter(told))
        told[first] += await _spoken(await client.resume_session(first, "/"), 5, 40, 10)
        shutil.copytree(growing, whole)  # with its log, as if the process had been killed
    async with connect(durable(Chronicler, Store(growing))) as client:
        assert [await _loaded(client, id) for id in told] == [(said, False) for said in told.values()]
    return told


async def _spoken(session: Session, name: int, count: int, size: int) -> list[str]:
    """Three turns; gives what was said in them."""
    for turn in range(3):
        await session.prompt(f"{name}-{turn} {count} {size}")
    return [f"<{name}-{turn}.{word}>" + "x" * size for turn in range(3) for word in range(count)]


async def _loaded(client: object, id: str) -> tuple[list[str], bool]:
    """What a session says, and whether it says that something is missing."""
    async with asyncio.timeout(30):
        session = await client.load_session(id, "/")  # type: ignore[attr-defined]
    texts = [u.content.text for u in session.backlog() if isinstance(u, s.AgentMessageChunk)]
    said = [text for text in texts if text.startswith("<")]
    return said, any("amaged" in text for text in texts)


async def _outcomes(path: Path, told: dict[str, list[str]]) -> Counter[str]:
    outcomes: Counter[str] = Counter()
    async with connect(durable(Chronicler, Store(path))) as client:
        try:
            listed = {one.session_id for one in await client.list_sessions()}
        except RpcError:
            listed = set()
            outcomes["not listed, and said so"] += 1
        for id, expected in told.items():
            try:
                said, is_damage_told = await _loaded(client, id)
            except RpcError as exc:
                if id in listed:
                    assert "corrupted" in str(exc), f"{exc} though it is listed"
                if "not found" in str(exc).casefold():
                    assert "damaged" in str(exc), f"silently gone: {exc}"
                outcomes["refused"] += 1
                continue
            if said == expected:
                outcomes["whole"] += 1
                continue
            assert is_damage_told, f"{len(expected) - len(said)} of {len(expected)} updates are silently gone"
            assert set(said) <= set(expected), "something else is told"
            assert said == [text for text in expected if text in set(said)], "out of order"
            outcomes["damaged, and said so"] += 1
    return outcomes


def _flip(chance: random.Random, copy: Path, _: Path) -> str:
    file = copy / chance.choice(FILES)
    data = bytearray(file.read_bytes())
    bits = [chance.randrange(len(data) * 8) for _ in range(chance.choice((1, 1, 8)))]
    for bit in bits:
        data[bit // 8] ^= 1 << bit % 8
    file.write_bytes(data)
    return f"{file.name}: bits {bits} flipped"


def _flip_header(chance: random.Random, copy: Path, _: Path) -> str:
    file = copy / chance.choice(FILES)
    data = bytearray(file.read_bytes())
    byte = chance.randrange(min(len(data), 128))
    data[byte] ^= 1 << chance.randrange(8)
    file.write_bytes(data)
    return f"{file.name}: byte {byte} of its header changed to {data[byte]}"


def _truncate(chance: random.Random, copy: Path, _: Path) -> str:
    file = copy / chance.choice(FILES)
    size = chance.randrange(file.stat().st_size)
    with file.open("r+b") as opened:
        opened.truncate(size)
    return f"{file.name}: cut off after {size}"


def _zero(chance: random.Random, copy: Path, _: Path) -> str:
    file = copy / chance.choice(FILES)
    data = bytearray(file.read_bytes())
    page = chance.randrange(len(data) // PAGE)
    data[page * PAGE : (page + 1) * PAGE] = bytes(PAGE)
    file.write_bytes(data)
    return f"{file.name}: page {page} zeroed"


def _swap(chance: random.Random, copy: Path, _: Path) -> str:
    file = copy / FILES[0]
    data = bytearray(file.read_bytes())
    one, other = (slice(n * PAGE, (n + 1) * PAGE) for n in chance.sample(range(len(data) // PAGE), 2))
    data[one], data[other] = data[other], data[one]
    file.write_bytes(data)
    return f"{file.name}: {one} and {other} swapped"


def _overwrite(chance: random.Random, copy: Path, _: Path) -> str:
    file = copy / chance.choice(FILES)
    data = bytearray(file.read_bytes())
    place = chance.randrange(len(data))
    data[place : place + 100] = chance.randbytes(100)
    file.write_bytes(data)
    return f"{file.name}: 100 bytes at {place} overwritten"


def _lose_log(chance: random.Random, copy: Path, _: Path) -> str:
    (copy / FILES[1]).unlink()
    if chance.random() < 0.5:
        (copy / "sessions.db-shm").unlink(missing_ok=True)
    return "log gone"


def _stale_log(chance: random.Random, copy: Path, older: Path) -> str:
    names = chance.choice([("sessions.db-wal",), ("sessions.db-shm",), ("sessions.db-wal", "sessions.db-shm")])
    for name in names:
        shutil.copy(older / name, copy / name)
    return f"{names} older"


def _old_database(chance: random.Random, copy: Path, older: Path) -> str:
    shutil.copy(older / FILES[0], copy / FILES[0])
    return "database older than its log"


WAYS: list[Damaging] = [
    *(_flip, _flip, _flip, _flip_header, _truncate, _zero, _swap, _overwrite, _lose_log, _stale_log, _old_database)
]
