"""What a server asks the user while one of its tools is at work, asked through the client."""

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

import msgspec

from .. import codec
from .. import schema as s
from ..agent.turn import AgentSession, new_id
from ..errors import RpcError
from ..roles import offered


class ServerQuestions:
    """The questions of one server; each says who asks, and none outlives the call it was asked in."""

    def __init__(self, server: str, session: AgentSession) -> None:
        self._server = server
        self._session = session
        self._calls = 0  # under way
        self._open: set[asyncio.Future[Any]] = set()

    @property
    def can_be_asked(self) -> bool:
        offers = self._session.client.offers
        return offered(offers, "elicitation.form") or offered(offers, "elicitation.url")

    @contextlib.contextmanager
    def welcome(self) -> Iterator[None]:
        """A call is under way: from its beginning to its end the server may ask."""
        self._calls += 1
        try:
            yield
        finally:
            self._calls -= 1
            if not self._calls:
                for question in self._open:
                    question.cancel()

    async def ask(self, context: Any, params: Any) -> Any:
        """The user's answer, in the library's words; a question nobody can be asked is cancelled."""
        from mcp_types import ElicitResult

        question = self._translated(params)
        if question is None or not self._calls:
            return ElicitResult(action="cancel")
        asking = asyncio.ensure_future(self._session.client.create_elicitation(question))
        self._open.add(asking)
        try:
            await asyncio.wait([asking])
            match None if asking.cancelled() else asking.result():
                case s.ElicitationAcceptAction(content=content):
                    return ElicitResult(action="accept", content=dict(content) if content else None)  # type: ignore[arg-type]
                case s.ElicitationDecline():
                    return ElicitResult(action="decline")
                case _:
                    return ElicitResult(action="cancel")
        except RpcError:
            return ElicitResult(action="cancel")
        finally:
            asking.cancel()
            self._open.discard(asking)

    async def hear(self, message: Any) -> None:
        """Something a server says by itself; of interest is only that a page was dealt with."""
        if getattr(message, "method", "") == "notifications/elicitation/complete":
            done = s.CompleteElicitationNotification(elicitation_id=self._id(message.params.elicitation_id))
            if offered(self._session.client.offers, "elicitation.url"):
                self._session.client.complete_elicitation(done)

    def _translated(self, params: Any) -> s.FormElicitation | s.UrlElicitation | None:
        """A question as the client is asked it; None when it cannot be."""
        who: dict[str, Any] = {"message": f"{self._server}: {params.message}", "session_id": self._session.id}
        if not offered(self._session.client.offers, f"elicitation.{params.mode}"):
            return None
        if params.mode == "url":
            return s.UrlElicitation(**who, url=params.url, elicitation_id=self._id(params.elicitation_id))
        try:
            form = codec.decode(msgspec.json.encode(params.requested_schema), s.ElicitationSchema)
        except (ValueError, TypeError):
            return None
        return s.FormElicitation(**who, requested_schema=form)

    def _id(self, id: str | None) -> str:
        return f"{self._server}/{id}" if id else new_id("ask")
