"""The title of a session: the user's, else the program's, else the first prompt."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

from ... import schema as s
from ...agent.turn import AgentSession
from ...errors import ConnectionClosed, Error
from ...foundation.owning import own
from .program.running import Message

MAX_TITLE = 256  # characters
SHORTEST = 10  # characters of a prompt that is long enough for a title by the program
DESCRIBED = 1000  # characters of the prompt that it reads
QUIET = "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"

Request = Callable[..., Awaitable[Message]]


class SessionTitle:
    """Sends one title, once; the program stores it, so that the list of sessions shows the same."""

    def __init__(self, session: AgentSession, request: Request, *, is_named: bool) -> None:
        self._session, self._request, self._is_named = session, request, is_named
        self._search: asyncio.Task[None] | None = None

    def look_for(self, prompt: str) -> None:
        """Ask the program for a title during the turn, unless the user has turned off such requests."""
        if self._is_named or self._search or _is_command(prompt) or len(prompt) < SHORTEST or os.environ.get(QUIET):
            return
        self._search = own(self._find(prompt), "claude's title")

    async def turn_ended(self, prompt: str) -> None:
        """Use the first prompt as the title, if the program was not asked for one."""
        if self._search is None and not _is_command(prompt):
            await self._tell(prompt)

    def was_given(self) -> None:
        """Note that the user has named the session, so that no other title is set."""
        self._is_named = True

    async def _find(self, prompt: str) -> None:
        try:
            told = await self._request("generate_session_title", description=prompt[:DESCRIBED], persist=True)
        except ConnectionClosed:
            return
        except Error:  # the provider has no model for it
            told = {}
        found = told.get("title")
        await self._tell(found if isinstance(found, str) and found.strip() else prompt)

    async def _tell(self, words: str) -> None:
        if not self._is_named and (words := shortened(words)):
            self._is_named = True
            now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
            await self._session.update(s.SessionInfoUpdate(title=words, updated_at=now))


def shortened(words: str) -> str:
    """A title in one line, shortened to the limit."""
    title = " ".join(words.split())
    return title if len(title) <= MAX_TITLE else f"{title[: MAX_TITLE - 1]}…"


def _is_command(prompt: str) -> bool:
    return prompt.lstrip().startswith("/")
