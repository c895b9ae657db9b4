"""A contender's server in the remote benchmark: `remote_server.py ours|uvicorn|hypercorn PORT`.

`ours` is Dragoman's endpoint on Dragoman's own server; the other two are the official Python SDK's ASGI application
on a server it recommends, which speaks HTTP/2, and on one it works with.  uvicorn has uvloop and httptools, as its
`standard` extra installs it.
"""

import asyncio
import sys
from typing import Any


async def ours(port: int) -> None:
    from ours_agent import Worker

    from dragoman.transports.remote.server.asgi import endpoint
    from dragoman.transports.remote.server.server import listening

    async with listening(endpoint(Worker), port=port):
        await asyncio.Event().wait()


def sdk() -> Any:
    from acp.http.asgi import create_asgi_app
    from sdk_agent import Worker

    def connected(connection: Any) -> Any:
        worker = Worker()  # type: ignore[abstract]
        worker.on_connect(connection)
        return worker

    return create_asgi_app(connected)


async def uvicorn(port: int) -> None:
    import uvicorn

    await uvicorn.Server(uvicorn.Config(sdk(), port=port, log_level="error", http="httptools")).serve()


async def hypercorn(port: int) -> None:
    from hypercorn.asyncio import serve
    from hypercorn.config import Config

    config = Config()
    config.bind, config.accesslog, config.errorlog = [f"127.0.0.1:{port}"], None, None
    await serve(sdk(), config)


if __name__ == "__main__":
    server = {"ours": ours, "uvicorn": uvicorn, "hypercorn": hypercorn}[sys.argv[1]](int(sys.argv[2]))
    if sys.argv[1] == "uvicorn":
        import uvloop

        uvloop.run(server)
    else:
        asyncio.run(server)
