"""For anybody's tests: an agent that does as it is told, a client that notes everything, wires to speak by hand.

    async with pair(MyAgent) as client:
        session = await client.new_session()
        assert (await session.prompt("hello")).stop_reason == "end_turn"

Names are loaded when they are first used, for tests start many processes.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .pairing import RawWire, pair, raw, raw_agent
    from .recording import RecordingClient
    from .testy import Echo, Testy

__all__ = ["Echo", "RawWire", "RecordingClient", "Testy", "pair", "raw", "raw_agent"]

_HOMES = {
    "Echo": "testy",
    "RawWire": "pairing",
    "RecordingClient": "recording",
    "Testy": "testy",
    "pair": "pairing",
    "raw": "pairing",
    "raw_agent": "pairing",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value
