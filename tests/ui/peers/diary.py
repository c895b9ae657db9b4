"""An agent whose sessions outlive it: each is a file in the directory it is given, a line for each prompt.

Told `load` besides, it can only load sessions, telling all of them again; otherwise it can only resume them.
"""

import os
import sys
from pathlib import Path

from dragoman import Agent, serve
from dragoman import schema as s
from dragoman.errors import ResourceNotFound

DIRECTORY = Path(sys.argv[1])


class Diary(Agent):
    async def answer(self, turn):
        page = DIRECTORY / turn.session.id
        before = page.read_text().splitlines()[1:] if page.exists() else []
        page.write_text("\n".join([turn.session.cwd, *before, turn.text]))
        await turn.say(f"{len(before)} before: {', '.join(before)}")

    async def list_sessions(self, params):
        pages = sorted(DIRECTORY.iterdir(), key=lambda page: page.stat().st_mtime_ns)
        infos = [
            s.SessionInfo(
                session_id=page.name,
                cwd=page.read_text().splitlines()[0],
                updated_at=f"2026-01-01T00:00:{number:02}Z",
            )
            for number, page in enumerate(pages)
        ]
        return s.ListSessionsResponse(sessions=infos)

    async def reopen(self, params):
        if not (DIRECTORY / os.path.basename(params.session_id)).exists():
            raise ResourceNotFound()
        return await self.open_session(params.session_id, params)


class Resuming(Diary):
    async def resume_session(self, params):
        await self.reopen(params)
        return s.ResumeSessionResponse()


class Loading(Diary):
    async def load_session(self, params):
        session = await self.reopen(params)
        for line in (DIRECTORY / session.id).read_text().splitlines()[1:]:
            await session.update(s.UserMessageChunk(content=s.TextContent(text=line)))
            await session.update(s.AgentMessageChunk(content=s.TextContent(text=f"(told again: {line})")))
        return s.LoadSessionResponse()


serve(Loading if sys.argv[2:] == ["load"] else Resuming)
