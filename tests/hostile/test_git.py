"""Git is asked about a hostile repository, and nothing that its settings name is started."""

import os
import sys
from pathlib import Path

import pytest

from dragoman import InvalidParams, RpcError, connect
from dragoman.host import Host

from .traps import FILTERED, Traps

CODER = [sys.executable, "-m", "dragoman", "agent", "coder"]
REVIEWER = [sys.executable, "-m", "dragoman", "agent", "reviewer"]
PROMPTS = ("/review", "/review diff", "/review staged", "/review diff HEAD~1", "/todo")


@pytest.fixture
def traps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Traps:
    for name in [name for name in os.environ if name.endswith(("_API_KEY", "_BASE_URL")) or name == "OLLAMA_HOST"]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    traps = Traps(tmp_path)
    traps.set_git()
    return traps


def test_the_traps_are_sharp(traps: Traps) -> None:
    """Git itself walks into them: otherwise the tests below would show nothing."""
    for words in (("status",), ("diff", "--", "old.py"), ("show", "HEAD~1:gone.py"), ("commit", "-qam", "third")):
        traps.git_or_fail(*words)
    expected = {"included", "filter.evil.process", "remote", "submodule included"}
    expected |= {f"{name} filter.{name}.clean" for name in FILTERED}
    assert expected <= set(traps.fired)


async def test_a_review_starts_no_program_of_the_repository(traps: Traps) -> None:
    async with connect(REVIEWER, Host(preset="allow-reads")) as client:
        session = await client.new_session(traps.repository)
        for prompt in (*PROMPTS, "/fix diff"):
            try:
                async for _ in session.prompt(prompt):
                    pass
            except InvalidParams as exc:  # a commit whose files are not there cannot be compared
                assert "cannot read the repository" in exc.message
            assert traps.fired == [], prompt


async def test_the_coder_s_review_starts_no_program_of_the_repository(traps: Traps) -> None:
    async with connect(CODER, Host(preset="allow-reads")) as client:
        for mode in ("ask", "plan", "architect", "code"):
            session = await client.new_session(traps.repository)
            await session.set_mode(mode)
            for prompt in PROMPTS[:3]:
                try:
                    async for _ in session.prompt(prompt):
                        pass
                except RpcError as exc:
                    assert "cannot read the repository" in exc.message
                assert traps.fired == [], (mode, prompt)
