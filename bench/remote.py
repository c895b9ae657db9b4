"""Measures how fast a turn's updates stream over the remote wires, from Dragoman's and the official SDKs' servers.

Every server runs in a process of its own; the client is Dragoman's in all cases and counts what it receives, so
what differs is the server.  Contenders take turns, sample by sample; the median is shown.
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
from pathlib import Path

from run import installed_typescript

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
REQUIRED = 5  # times the Python SDK's faster server
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


async def rate(contender: str, wire: str, count: int) -> float:
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
            async with connect(await dial(wire, port)) as client:
                session = await client.new_session("/")
                await session.prompt("say 100")
                begun, seen = time.perf_counter(), 0
                async for event in session.prompt(f"say {count}"):
                    seen += isinstance(event, s.AgentMessageChunk)
                took = time.perf_counter() - begun
        finally:
            server.kill()
    if seen != count:
        raise SystemExit(f"{contender} lost updates over {wire}: {seen} of {count} came")
    return count / took


def measured(contenders: Sequence[str], count: int, repeat: int) -> dict[tuple[str, str], float]:
    samples: dict[tuple[str, str], list[float]] = {}
    for turn in range(repeat):
        for wire in WIRES:
            for contender in contenders:
                if wire in CONTENDERS[contender]:
                    print(f"{wire} {contender} {turn + 1}/{repeat}", file=sys.stderr)
                    size = count if contender == "ours" else count // 5  # as long a sample as ours, at least
                    samples.setdefault((wire, contender), []).append(asyncio.run(rate(contender, wire, size)))
    return {key: statistics.median(figures) for key, figures in samples.items()}


def render(rates: dict[tuple[str, str], float], contenders: Sequence[str]) -> str:
    names = " | ".join(NAMES[name] for name in contenders)
    lines = [f"| updates a second | {names} | times the Python SDK |"]
    lines.append("| --- |" + " ---: |" * (len(contenders) + 1))
    for wire in WIRES:
        cells = [f"{rates[wire, name]:,.0f}" if (wire, name) in rates else "" for name in contenders]
        lines.append(f"| {wire} | {' | '.join(cells)} | {times(rates, wire):.1f} |")
    return "\n".join(lines)


def times(rates: dict[tuple[str, str], float], wire: str) -> float:
    return rates[wire, "ours"] / max(rates.get((wire, name), 0) for name in ("uvicorn", "hypercorn"))


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench/remote.py", description=__doc__)
    parser.add_argument("--count", type=int, default=50_000, help="updates of one turn (the SDKs': a fifth)")
    parser.add_argument("--repeat", type=int, default=3, help="samples of each")
    parser.add_argument("--typescript", action="store_true", help="have the TypeScript SDK take part")
    parser.add_argument("--check", action="store_true", help=f"exit with 1 below {REQUIRED} times the Python SDK")
    arguments = parser.parse_args()
    contenders = ["ours", "uvicorn", "hypercorn"]
    if arguments.typescript:
        installed_typescript()
        contenders.append("typescript")
    rates = measured(contenders, arguments.count, arguments.repeat)
    print(render(rates, contenders))
    return int(arguments.check and any(times(rates, wire) < REQUIRED for wire in WIRES))


if __name__ == "__main__":
    sys.exit(main())
