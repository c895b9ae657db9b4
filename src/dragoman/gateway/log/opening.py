"""Opens an engine by its address, so that no other module names one."""

from pathlib import Path

from ...errors import Error
from ...store.database.connecting import Level
from .engine import Engine
from .sqlite import SqliteEngine


async def open_engine(address: str, directory: Path, level: Level) -> Engine:
    """The engine at an address of NATS, or without an address the file in a directory."""
    if not address:
        return SqliteEngine(directory, level)
    if not address.startswith("nats://"):
        raise Error(f"there is no engine at {address}; one is at nats://HOST[:PORT]")
    try:
        from .nats.engine import NatsEngine
    except ModuleNotFoundError:
        raise Error("an engine on NATS needs the package nats-py") from None
    return await NatsEngine.open(address)
