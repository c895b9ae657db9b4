"""No key, no settings and no home of the machine's own reach the coder's tests."""

import asyncio
import gc
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def a_home_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    for name in list(os.environ):
        if name.endswith(("_API_KEY", "_BASE_URL")) or name in ("OLLAMA_HOST", "DRAGOMAN_MODEL"):
            monkeypatch.delenv(name)
    home = tmp_path_factory.mktemp("home")
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    return home


@pytest.fixture
async def collected(nothing_left: None) -> AsyncIterator[None]:
    """Google's library closes what is closed once more when it is collected, in tasks of its own: let it."""
    yield
    for _ in range(10):  # what is closed may let go of what is to be closed next
        gc.collect()
        await asyncio.sleep(0)  # until the tasks are made
        if not (left := asyncio.all_tasks() - {asyncio.current_task()}):
            break
        await asyncio.wait(left, timeout=5)
