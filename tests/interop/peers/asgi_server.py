"""Serves an agent over HTTP and WebSocket: `asgi_server.py sdk|dragoman SERVER PORT`.

The agent is one of the twins of this folder, the server uvicorn, hypercorn or our own; sessions outlive the
connection they were opened on.
"""

import asyncio
import itertools
import sys
from typing import Any

import sdk_agent


def sdk_app() -> Any:
    from acp.http.asgi import create_asgi_app

    sessions: dict[str, sdk_agent.Session] = {}
    ids = (f"session-{number}" for number in itertools.count(1))

    def connected(connection: Any) -> sdk_agent.SdkAgent:
        agent = sdk_agent.SdkAgent()
        agent.sessions, agent.ids = sessions, ids
        agent.on_connect(connection)
        return agent

    return create_asgi_app(connected)


def dragoman_app() -> Any:
    from dragoman_agent import Peer

    from dragoman.transports.remote.server.asgi import endpoint

    history: dict[str, Any] = {}

    class Remembering(Peer):
        async def __aenter__(self) -> Any:
            await super().__aenter__()
            self.history = history
            return self

    return endpoint(Remembering)


async def main(app: Any, server: str, port: int) -> None:
    if server == "dragoman":
        from dragoman.transports.remote.server.server import listening

        async with listening(app, port=port):
            await asyncio.Event().wait()
    elif server == "uvicorn":
        import uvicorn

        await uvicorn.Server(uvicorn.Config(app, port=port, log_level="warning")).serve()
    else:
        from hypercorn.asyncio import serve
        from hypercorn.config import Config

        config = Config()
        config.bind, config.accesslog, config.loglevel = [f"127.0.0.1:{port}"], None, "WARNING"
        await serve(app, config)


if __name__ == "__main__":
    kind, server, port = sys.argv[1:]
    asyncio.run(main(sdk_app() if kind == "sdk" else dragoman_app(), server, int(port)))
