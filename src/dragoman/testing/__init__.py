"""For anybody's tests: an agent that does as it is told, a client that notes everything, wires to speak by hand.

async with pair(MyAgent) as client:
    session = await client.new_session()
    assert (await session.prompt("hello")).stop_reason == "end_turn"
"""

from .pairing import RawWire, pair, raw, raw_agent
from .recording import RecordingClient
from .testy import Echo, Testy

__all__ = ["Echo", "RawWire", "RecordingClient", "Testy", "pair", "raw", "raw_agent"]
