"""Changes below a directory are told as they happen, and nothing outside it is."""

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dragoman.errors import InvalidParams, ResourceNotFound, RpcError
from dragoman.host.files import Workspace, watching
from dragoman.host.files.extensions import FilesChanged, WatchRequest

needs_watchfiles = pytest.mark.usefixtures("watchfiles")


@pytest.fixture
def watchfiles() -> None:
    pytest.importorskip("watchfiles", reason="pip install 'dragoman[watch]'")


@pytest.fixture
def ws(tmp_path: Path) -> Path:
    (tmp_path / "ws" / "sub").mkdir(parents=True)
    (tmp_path / "ws" / "f").write_text("x")
    (tmp_path / "outside").mkdir()
    return tmp_path / "ws"


@pytest.fixture
async def workspace(ws: Path, nothing_left):
    before = len(os.listdir("/proc/self/fd"))
    with Workspace(ws, state=ws.parent / "state") as workspace:
        yield workspace
    async with asyncio.timeout(10):
        while len(os.listdir("/proc/self/fd")) > before:  # watchfiles closes its own in a thread of its own
            await asyncio.to_thread(os.sched_yield)


def request(path: Path, *, recursive: bool = True) -> WatchRequest:
    return WatchRequest(session_id="s", path=str(path), recursive=recursive)


async def until(changes: AsyncIterator[FilesChanged], **wanted: str) -> dict[str, str]:
    """Every change up to the last of those wanted, by name."""
    seen: dict[str, str] = {}
    async with asyncio.timeout(10):
        while not wanted.items() <= seen.items():
            batch = await anext(changes)
            seen.update((Path(change.path).name, change.type) for change in batch.changes)
    return seen


@needs_watchfiles
async def test_what_is_made_changed_and_deleted_is_told(workspace: Workspace, ws: Path) -> None:
    async with workspace.watch(request(ws)) as changes:
        (ws / "new").write_text("x")
        await until(changes, new="created")
        (ws / "new").write_text("xy")
        await until(changes, new="modified")
        (ws / "sub" / "deep").write_text("x")
        (ws / "new").unlink()
        await until(changes, new="deleted", deep="created")


@needs_watchfiles
async def test_what_the_workspace_writes_is_told_by_its_name_only(workspace: Workspace, ws: Path) -> None:
    async with workspace.watch(request(ws)) as changes:
        with workspace.writing(f"{ws}/f") as target:
            target.commit("new")
        (ws / "last").touch()
        seen = await until(changes, last="created")
        seen |= await until(changes, f="modified") if "f" not in seen else {}
    assert set(seen) == {"f", "last"}


@needs_watchfiles
async def test_directories_that_come_later_are_watched_too(workspace: Workspace, ws: Path) -> None:
    async with workspace.watch(request(ws)) as changes:
        (ws / "a" / "b").mkdir(parents=True)
        (ws / "a" / "b" / "early").touch()
        await until(changes, a="created", b="created", early="created")
        (ws / "a" / "b" / "late").touch()
        await until(changes, late="created")
        (ws / "a" / "b").rename(ws / "sub" / "moved")
        await until(changes, b="deleted", moved="created")
        (ws / "sub" / "moved" / "later").touch()
        await until(changes, later="created")


@needs_watchfiles
async def test_without_recursion_only_the_directory_itself_is_watched(workspace: Workspace, ws: Path) -> None:
    async with workspace.watch(request(ws, recursive=False)) as changes:
        (ws / "sub" / "deep").touch()
        (ws / "last").touch()
        assert "deep" not in await until(changes, last="created")


@needs_watchfiles
async def test_links_lead_to_no_news_from_outside(workspace: Workspace, ws: Path) -> None:
    outside = ws.parent / "outside"
    (ws / "link").symlink_to(outside)
    (ws / "everything").symlink_to("/")
    async with workspace.watch(request(ws)) as changes:
        (outside / "secret").touch()
        (ws / "later").symlink_to(outside)
        (outside / "secret 2").touch()
        (ws / "last").touch()
        seen = await until(changes, last="created", later="created")
        (ws / "very last").touch()
        seen |= await until(changes, **{"very last": "created"})
    assert set(seen) == {"later", "last", "very last"}
    for path in (ws / "link", outside, ws / "f", ws / "missing"):
        with pytest.raises(RpcError):
            async with workspace.watch(request(path)):
                pass


@needs_watchfiles
async def test_a_directory_removed_and_made_again_at_once_is_still_watched(workspace: Workspace, ws: Path) -> None:
    """As a branch change or a build does it; the new directory often has the number of the old one."""
    async with workspace.watch(request(ws)) as changes:
        for number in range(5):
            (ws / "sub" / "below").mkdir()
            await until(changes, below="created")
            shutil.rmtree(ws / "sub")
            (ws / "sub" / "below").mkdir(parents=True)
            (ws / "sub" / "below" / f"early {number}").touch()
            await until(changes, **{f"early {number}": "created"})
            (ws / "sub" / "below" / f"late {number}").touch()
            (ws / "sub" / f"later {number}").touch()
            await until(changes, **{f"late {number}": "created", f"later {number}": "created"})
            shutil.rmtree(ws / "sub" / "below")
            await until(changes, below="deleted")


@needs_watchfiles
async def test_a_directory_moved_away_and_back_at_once_is_still_watched(workspace: Workspace, ws: Path) -> None:
    """It is the same directory under the same name; whoever watched it has lost it all the same."""
    async with workspace.watch(request(ws)) as changes:
        for number in range(3):
            (ws / "sub").rename(ws / "elsewhere")
            (ws / "elsewhere").rename(ws / "sub")
            (ws / f"beside {number}").touch()
            await until(changes, **{f"beside {number}": "created"})
            (ws / "sub" / f"late {number}").touch()
            await until(changes, **{f"late {number}": "created"})


@needs_watchfiles
@pytest.mark.parametrize("recursive", [True, False])
async def test_the_end_of_the_watched_directory_itself_is_told(
    workspace: Workspace, ws: Path, recursive: bool
) -> None:
    (ws / "sub" / "last").touch()
    async with workspace.watch(request(ws / "sub", recursive=recursive)) as changes:
        shutil.rmtree(ws / "sub")
        await until(changes, sub="deleted")
        with pytest.raises(ResourceNotFound):
            async with asyncio.timeout(10):
                await anext(changes)


@needs_watchfiles
async def test_a_reader_who_does_not_keep_up_is_told_so(workspace: Workspace, ws: Path, monkeypatch) -> None:
    monkeypatch.setattr(watching, "MAX_CHANGES", 10)
    async with workspace.watch(request(ws)) as changes, asyncio.timeout(10):
        for number in range(100):
            (ws / str(number)).touch()
        while not (batch := await anext(changes)).overflow:
            assert len(batch.changes) <= 10
        assert len(batch.changes) == 10


@needs_watchfiles
async def test_too_many_directories_are_refused(workspace: Workspace, ws: Path, monkeypatch) -> None:
    monkeypatch.setattr(watching, "MAX_DIRECTORIES", 5)
    for number in range(5):
        (ws / str(number)).mkdir()
    with pytest.raises(InvalidParams) as caught:
        async with workspace.watch(request(ws)):
            pass
    assert caught.value.data["kind"] == "too_large"


@needs_watchfiles
async def test_a_cancelled_watch_leaves_nothing_running(workspace: Workspace, ws: Path) -> None:
    begun = asyncio.Event()

    async def watch() -> None:
        async with workspace.watch(request(ws)) as changes:
            begun.set()
            async for _ in changes:
                pass

    task = asyncio.ensure_future(watch())
    async with asyncio.timeout(10):
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


@needs_watchfiles
async def test_whoever_decides_is_asked_before(workspace: Workspace, ws: Path) -> None:
    async def refuse(operation: object, diff: object) -> None:
        raise InvalidParams(f"{operation.kind} {operation.path}")

    with pytest.raises(InvalidParams, match=f"file_read {ws}/sub"):
        async with workspace.watch(request(ws / "sub"), refuse):
            pass


MISSING = """
import asyncio, sys
sys.modules["watchfiles"] = None
from dragoman.host.files.extensions import WatchRequest
from dragoman.host.files import Workspace

async def main():
    with Workspace(sys.argv[1]) as workspace:
        async with workspace.watch(WatchRequest(session_id="s", path=sys.argv[1])):
            pass

asyncio.run(main())
"""


def test_without_watchfiles_one_is_told_what_to_install(ws: Path) -> None:
    result = subprocess.run([sys.executable, "-c", MISSING, str(ws)], capture_output=True, text=True)
    assert "pip install 'dragoman[watch]'" in result.stderr


def test_importing_a_workspace_does_not_import_watchfiles() -> None:
    code = "import sys, dragoman.host.files; sys.exit('watchfiles' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
