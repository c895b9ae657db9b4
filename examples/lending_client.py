"""A client that lends its agent a directory and commands, and asks before anything is done with them."""

import asyncio
import sys
import tempfile
from pathlib import Path

from dragoman import Transcript, connect
from dragoman.host import Host
from dragoman.host.permissions import Question

AGENT = [sys.executable, str(Path(__file__).with_name("careful_agent.py"))]


async def ask(question: Question) -> str:
    """Show what is going to be done, exactly, and give back what the user chose; here the user always agrees."""
    print(question.title, question.text.replace("\n", ", "))
    print(*(f"  ! {warning}" for warning in question.warnings), question.detail, sep="\n")
    return next(option.id for option in question.options if option.allows)


async def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        project, state = Path(directory, "project"), Path(directory, "state")
        project.mkdir()
        note = project / "note.txt"
        note.write_text("no newline")
        host = Host(asker=ask, agent_name="careful", state=state)  # without `state`, in the user's own directories
        async with connect(AGENT, host):
            session = await host.new_session(project)
            transcript = Transcript([event async for event in session.prompt("note.txt")])
        for message in transcript.messages:
            print(f"{message.speaker}: {message.text}")
        print(f"file: {note.read_text()!r}")
        print(f"written down: {len((state / 'audit.jsonl').read_text().splitlines())} lines")


asyncio.run(main())
