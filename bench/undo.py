"""What it costs to change and to take back 1,000 files: `python bench/undo.py [FILES]`.

The coder runs in a process of its own, its sessions in a store on disk.  The client is a `Host`, whose files,
permissions and journal are the real ones.  Shown are seconds, and how long the client's loop was held at once.
"""

import asyncio
import importlib
import sys
import tempfile
import time
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from dragoman import Session, connect, serve
from dragoman.coder import Coder, ScriptedModel, call
from dragoman.host import Host
from dragoman.store import Store, durable

holds = importlib.import_module("loop_holds").holds


def agent(files: int, store: str) -> None:
    """The coder: in its first turn it reads all files and changes each of them."""
    names = [f"part{number % 20}/file{number}.py" for number in range(files)]
    model = ScriptedModel(
        [call("read_file", path=name) for name in names],
        [call("edit_file", path=name, old="one", new="two") for name in names],
        "Done.",
        window=100_000_000,
    )
    kept = durable(Coder, Store(Path(store)))
    serve(lambda remote: kept(remote, model=model))


async def measured(name: str, session: Session, prompt: str) -> None:
    with holds() as found:
        start = time.perf_counter()
        async for _ in session.prompt(prompt):
            pass
        took = time.perf_counter() - start
    print(f"| {name} | {took:.1f} s | {found.longest * 1000:.1f} ms |", flush=True)


async def main(files: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory, "project")
        paths = [root / f"part{number % 20}" / f"file{number}.py" for number in range(files)]
        for path in paths:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("one\n" + "line\n" * 50)
        command = [sys.executable, __file__, "agent", str(files), str(Path(directory, "store"))]
        async with connect(command, client=Host(preset="allow-edits")) as client:
            session = await client.new_session(root)
            await session.set_mode("code")
            print("| files | time | loop held |\n| --- | ---: | ---: |")
            await measured(f"{files:,} read and changed", session, "Change them all.")
            assert all(path.read_text().startswith("two\n") for path in paths)
            await measured(f"{files:,} taken back", session, "/undo")
            assert all(path.read_text().startswith("one\n") for path in paths)


if __name__ == "__main__":
    if sys.argv[1:2] == ["agent"]:
        agent(int(sys.argv[2]), sys.argv[3])
    else:
        asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000))
