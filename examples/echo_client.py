"""The smallest client: starts an agent, asks it something, prints what comes back."""

import asyncio
import sys
from pathlib import Path

from dragoman import connect

AGENT = [sys.executable, str(Path(__file__).with_name("echo_agent.py"))]


async def main() -> None:
    async with connect(AGENT) as client:
        session = await client.new_session()
        async for event in session.prompt("hello"):
            print(event)


asyncio.run(main())
