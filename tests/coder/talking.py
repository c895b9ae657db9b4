"""A coder in front of a model server."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from dragoman import Session
from dragoman.coder import Coder
from dragoman.coder.loop import TurnLimits
from dragoman.testing import RecordingClient, pair

from .desk import QUICK, DiskClient
from .model_servers import ModelServer, Step


@contextlib.asynccontextmanager
async def talking(
    wire: type[ModelServer],
    cwd: Path,
    monkeypatch: pytest.MonkeyPatch,
    *steps: Step,
    client: Any = None,
    options: dict[str, Any] | None = None,
    deadline: float = 60,
    limits: TurnLimits = QUICK,
    **coder: Any,
) -> AsyncIterator[tuple[Session, RecordingClient, ModelServer]]:
    """A session with a coder whose model is a server on loopback."""
    server = wire(*steps)
    async with asyncio.timeout(deadline), server.running():
        for name, value in server.environ.items():
            monkeypatch.setenv(name, value)
        async with pair(
            lambda remote: Coder(remote, model=server.name, limits=limits, **coder), client or DiskClient()
        ) as there:
            yield await there.new_session(cwd, **(options or {})), there, server
