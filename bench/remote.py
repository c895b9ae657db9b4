"""Measures how fast a turn's updates stream over the remote wires, from Dragoman's and the official SDKs' servers.

Every server runs in a process of its own.  One client is used for all of them, so what differs is the server:
first a neutral client (`neutral.py`), which only counts updates in bytes, then Dragoman's, which reads each one.
Contenders take turns, sample by sample; the median is shown, and how far the samples lie apart.  uvicorn runs as
its `standard` extra installs it, on uvloop and httptools.
"""

import argparse
import asyncio
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib import util
from pathlib import Path

from run import installed_typescript
from table import spread

from dragoman import connect
from dragoman import schema as s
from dragoman.transports import Transport
from dragoman.transports.remote.client.http import dial_http
from dragoman.transports.remote.client.websocket import dial_websocket

HERE = Path(__file__).parent
WIRES = ("websocket", "http/1.1", "http/2")
CONTENDERS = {"ours": WIRES, "uvicorn": WIRES[:2], "hypercorn": WIRES, "typescript": WIRES[:2]}
NAMES = {
    "ours": "Dragoman",
    "uvicorn": "Python SDK, uvicorn",
    "hypercorn": "Python SDK, hypercorn",
    "typescript": "TypeScript SDK",
}
CLIENTS = {"neutral": "a neutral client", "ours": "Dragoman's client"}
REQUIRED = 5  # times the Python SDK's faster server, by the client that is kinder to it
START = 20.0  # seconds for a server to listen


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


async def listening(port: int) -> None:
    async with asyncio.timeout(START):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.05)
            else:
                writer.close()
                return


async def dial(wire: str, port: int) -> Transport:
    if wire == "websocket":
        return await dial_websocket(f"ws://127.0.0.1:{port}/acp")
    return await dial_http(f"http://127.0.0.1:{port}/acp", version="1.1" if wire == "http/1.1" else "2")


async def rate(client: str, contender: str, wire: str, count: int) -> float:
    """Updates a second in one turn of so many, from the prompt to its answer."""
    port = free_port()
    if contender == "typescript":
        argv = ["node", str(HERE / "remote_typescript.mjs"), wire, str(port)]
    else:
        argv = [sys.executable, str(HERE / "remote_server.py"), contender, str(port)]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with subprocess.Popen(argv, env=env) as server:
        try:
            await listening(port)
            if client == "ours":
                return await by_ours(wire, port, count, contender)
            argv = [sys.executable, str(HERE / "neutral.py"), wire, str(port), str(count)]
            done = await asyncio.create_subprocess_exec(*argv, env=env, stdout=subprocess.PIPE)
            told, _ = await done.communicate()
        finally:
            server.kill()
    if done.returncode:
        raise SystemExit(f"the neutral client fails at {contender} over {wire}")
    return float(told)


async def by_ours(wire: str, port: int, count: int, contender: str) -> float:
    async with connect(await dial(wire, port)) as client:
        session = await client.new_session("/")
        await session.prompt("say 100")
        begun, seen = time.perf_counter(), 0
        async for event in session.prompt(f"say {count}"):
            seen += isinstance(event, s.AgentMessageChunk)
        took = time.perf_counter() - begun
    if seen != count:
        raise SystemExit(f"{contender} lost updates over {wire}: {seen} of {count} came")
    return count / took


Samples = dict[tuple[str, str], list[float]]  # by wire and contender


def measured(client: str, contenders: Sequence[str], count: int, repeat: int) -> Samples:
    samples: Samples = {}
    for turn in range(repeat):
        for wire in WIRES:
            for contender in contenders:
                if wire in CONTENDERS[contender]:
                    print(f"{client} {wire} {contender} {turn + 1}/{repeat}", file=sys.stderr)
                    size = count if contender == "ours" else count // 5  # as long a sample as ours, at least
                    figure = asyncio.run(rate(client, contender, wire, size))
                    samples.setdefault((wire, contender), []).append(figure)
    return samples


def render(samples: Samples, client: str, contenders: Sequence[str]) -> str:
    names = " | ".join(NAMES[name] for name in contenders)
    lines = [f"| updates a second, {CLIENTS[client]} | {names} | times the Python SDK |"]
    lines.append("| --- |" + " ---: |" * (len(contenders) + 1))
    for wire in WIRES:
        cells = [shown(samples.get((wire, name))) for name in contenders]
        lines.append(f"| {wire} | {' | '.join(cells)} | {times(samples, wire):.1f} |")
    return "\n".join(lines)


def shown(figures: Sequence[float] | None) -> str:
    return f"{statistics.median(figures):,.0f} {spread(figures)}" if figures else ""


def times(samples: Samples, wire: str) -> float:
    rivals = [samples[wire, name] for name in ("uvicorn", "hypercorn") if (wire, name) in samples]
    return statistics.median(samples[wire, "ours"]) / max(map(statistics.median, rivals))


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench/remote.py", description=__doc__)
    parser.add_argument("--count", type=int, default=50_000, help="updates of one turn (the SDKs': a fifth)")
    parser.add_argument("--repeat", type=int, default=3, help="samples of each")
    parser.add_argument("--typescript", action="store_true", help="have the TypeScript SDK take part")
    parser.add_argument("--check", action="store_true", help=f"exit with 1 below {REQUIRED} times the Python SDK")
    arguments = parser.parse_args()
    if not util.find_spec("httptools"):
        raise SystemExit("uvicorn is measured with httptools: pip install httptools")
    contenders = ["ours", "uvicorn", "hypercorn"]
    if arguments.typescript:
        installed_typescript()
        contenders.append("typescript")
    missed = False
    for client in CLIENTS:
        samples = measured(client, contenders, arguments.count, arguments.repeat)
        print(render(samples, client, contenders), flush=True)
        print()
        missed |= any(times(samples, wire) < REQUIRED for wire in WIRES)
    return int(arguments.check and missed)


if __name__ == "__main__":
    sys.exit(main())
