"""A server to be attacked, as a process: prints its port once it listens, and serves until it is killed.

`target.py` is our own server; `target.py uvicorn|hypercorn|granian` is the same endpoint on another one.
"""

import asyncio
import socket
import sys
import threading
import time

from dragoman.testing import Testy
from dragoman.transports.remote.server.asgi import endpoint


async def ours(app):
    from dragoman.transports.remote.server.server import listening

    async with listening(app) as server:
        print(server.port, flush=True)
        await asyncio.Event().wait()


def told_port():
    """A port that was free a moment ago, which is printed as soon as the server takes connections there."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    threading.Thread(target=tell_when_listening, args=(port,), daemon=True).start()
    return port


def tell_when_listening(port):
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            time.sleep(0.05)
        else:
            print(port, flush=True)
            return


async def uvicorn(app):
    import uvicorn

    await uvicorn.Server(uvicorn.Config(app, port=told_port(), log_level="critical")).serve()


async def hypercorn(app):
    from hypercorn.asyncio import serve
    from hypercorn.config import Config

    config = Config()
    config.bind, config.accesslog, config.errorlog = [f"127.0.0.1:{told_port()}"], None, None
    await serve(app, config)


async def granian(app):
    from granian.constants import Interfaces
    from granian.server.embed import Server

    await Server(app, port=told_port(), interface=Interfaces.ASGI, log_enabled=False).serve()


if __name__ == "__main__":
    serve = {"ours": ours, "uvicorn": uvicorn, "hypercorn": hypercorn, "granian": granian}
    asyncio.run(serve[sys.argv[1] if len(sys.argv) > 1 else "ours"](endpoint(Testy)))
