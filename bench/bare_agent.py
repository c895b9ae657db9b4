"""The bare loop's agent in the benchmark."""

import asyncio
import os
import sys

from bare import (
    Chunk,
    FileContent,
    Initialize,
    NewSession,
    Peer,
    Prompt,
    ReadFile,
    SessionCreated,
    Stopped,
    Text,
    Update,
    reads,
)
from work import CHUNK, must_be

_content = reads(FileContent)


class Worker:
    def __init__(self) -> None:
        self.sessions: dict[str, str] = {}
        self.peer = Peer(
            {
                "initialize": (reads(Initialize), self.initialize),
                "session/new": (reads(NewSession), self.new_session),
                "session/prompt": (reads(Prompt), self.prompt),
            },
            {},
        )

    async def initialize(self, params: Initialize) -> Initialize:
        return params

    async def new_session(self, params: NewSession) -> SessionCreated:
        session_id = os.urandom(16).hex()
        self.sessions[session_id] = params.cwd
        return SessionCreated(session_id)

    async def prompt(self, params: Prompt) -> Stopped:
        match params.prompt[0].text.split():
            case ["say", count]:
                for _ in range(int(count)):
                    await self.peer.note("session/update", Update(params.session_id, Chunk(Text(CHUNK))))
            case ["read", path, count, size]:
                for _ in range(int(count)):
                    file = await self.peer.call("fs/read_text_file", ReadFile(params.session_id, path), _content)
                    must_be(size, file.content)
        return Stopped("end_turn")


async def main() -> None:
    worker = Worker()
    await worker.peer.open(sys.stdin.buffer, sys.stdout.buffer)
    await worker.peer.over.wait()


if __name__ == "__main__":
    asyncio.run(main())
