"""A client that lends its agent files, and asks the user before the agent may change one."""

import asyncio
import sys
import tempfile
from pathlib import Path

from dragoman import Client, Transcript, connect
from dragoman import schema as s

AGENT = [sys.executable, str(Path(__file__).with_name("careful_agent.py"))]


class Lending(Client):
    async def read_text_file(self, params: s.ReadTextFileRequest) -> s.ReadTextFileResponse:
        return s.ReadTextFileResponse(content=Path(params.path).read_text())

    async def write_text_file(self, params: s.WriteTextFileRequest) -> s.WriteTextFileResponse:
        Path(params.path).write_text(params.content)
        return s.WriteTextFileResponse()

    async def request_permission(self, params: s.RequestPermissionRequest) -> s.RequestPermissionResponse:
        print(f"May it? {params.tool_call.title}: yes")
        allowed = next(option for option in params.options if option.kind == "allow_once")
        outcome = s.SelectedPermissionOutcome(option_id=allowed.option_id)
        return s.RequestPermissionResponse(outcome=outcome)


async def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        note = Path(directory, "note.txt")
        note.write_text("no newline")
        async with connect(AGENT, Lending()) as client:
            session = await client.new_session(directory)
            transcript = Transcript([event async for event in session.prompt("note.txt")])
        for message in transcript.messages:
            print(f"{message.speaker}: {message.text}")
        print(f"file: {note.read_text()!r}")


asyncio.run(main())
