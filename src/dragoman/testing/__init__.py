"""For tests of agents and clients: a scripted agent, a recording client, and raw connections.

    async with pair(MyAgent) as client:
        session = await client.new_session()
        assert (await session.prompt("hello")).stop_reason == "end_turn"

Names are loaded on first use, since tests start many processes.
"""

from typing import TYPE_CHECKING

from ..foundation.names import loading

if TYPE_CHECKING:
    from .exhibition import Exhibition
    from .pairing import RawWire, pair, raw, raw_agent
    from .recording import RecordingClient
    from .testy import Echo, Testy

__all__ = ["Echo", "Exhibition", "RawWire", "RecordingClient", "Testy", "pair", "raw", "raw_agent"]

__getattr__ = loading(
    __name__,
    {
        "exhibition": ("Exhibition",),
        "pairing": ("RawWire", "pair", "raw", "raw_agent"),
        "recording": ("RecordingClient",),
        "testy": ("Echo", "Testy"),
    },
)
