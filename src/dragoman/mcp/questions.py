"""Servers' requests during a tool call: to the user, through the client, and to the agent."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from .. import codec
from .. import schema as s
from ..agent.turn import AgentSession, new_id
from ..errors import Error, RpcError
from ..host.audit.redaction import Redactor
from ..roles import offered
from .contents import PromptMessage, cleaned, messages_of

if TYPE_CHECKING:
    import mcp_types as types

log = logging.getLogger("dragoman")

MOST_SAMPLES = 20  # model answers that a server may request during its calls
MOST_FORMS = 50  # questions to the user that it may have meanwhile
MAX_LOGGED = 2000  # characters of one message of a server
REFUSED = -1  # MCP's error code for a request that the user refuses


class SamplingRequest(Struct, frozen=True):
    """A conversation that the agent's model should continue for a server; `models` are preferred names."""

    server: str
    messages: Sequence[PromptMessage]
    max_tokens: int
    system_prompt: str = ""
    temperature: float | None = None
    stop_sequences: Sequence[str] = ()
    models: Sequence[str] = ()


Sampler = Callable[[SamplingRequest], Awaitable[str]]


class ServerQuestions:
    """The requests of one server; each names the server, and none outlives its tool call."""

    def __init__(
        self, server: str, session: AgentSession, redactor: Redactor, sampler: Sampler | None = None
    ) -> None:
        self._server = server
        self._session = session
        self.redactor = redactor
        self.clean = redactor.known
        self._sampler = sampler
        self._calls = 0  # under way
        self._samples = 0  # since the running calls began
        self._forms = 0  # so, too
        self._pages: dict[str, str] = {}  # shown, by the server's ids: our ids
        self._open: set[asyncio.Future[Any]] = set()

    @property
    def can_be_asked(self) -> bool:
        offers = self._session.client.offers
        return offered(offers, "elicitation.form") or offered(offers, "elicitation.url")

    @contextlib.contextmanager
    def welcome(self) -> Iterator[None]:
        """Allow the server's requests while a call runs."""
        self._calls += 1
        try:
            yield
        finally:
            self._calls -= 1
            if not self._calls:
                self._samples = self._forms = 0
                for question in self._open:
                    question.cancel()

    def answers(self) -> Mapping[str, object]:
        """The library's callbacks for the requests that are answered."""
        asked: dict[str, object] = {"list_roots_callback": self.roots, "logging_callback": self.log}
        if self.can_be_asked:
            asked["elicitation_callback"] = self.ask
        if self._sampler:
            asked["sampling_callback"] = self.sample
        return asked

    async def roots(self, context: object) -> "types.ListRootsResult":
        """The directories of the session."""
        from mcp_types import ListRootsResult, Root

        directories = [self._session.cwd, *self._session.additional_directories]
        return ListRootsResult(
            roots=[
                Root.model_validate({"uri": Path(path).as_uri(), "name": Path(path).name}) for path in directories
            ]
        )

    async def log(self, params: "types.LoggingMessageNotificationParams") -> None:
        """Write a server's log messages to our log, at the lowest level."""
        if log.isEnabledFor(logging.DEBUG):
            log.debug("the MCP server %r says: %s", self._server, self.clean(str(params.data))[:MAX_LOGGED])

    async def sample(
        self, context: object, params: "types.CreateMessageRequestParams"
    ) -> "types.CreateMessageResult | types.ErrorData":
        """The answer of the agent's model; errors are returned, because they are the server's answer."""
        from mcp_types import CreateMessageResult, ErrorData, TextContent

        self._samples += 1
        if self._sampler is None or not self._calls or self._samples > MOST_SAMPLES:
            return ErrorData(code=REFUSED, message="the agent does not put this to its model")
        asking = asyncio.ensure_future(self._sampler(self._sampling(params)))
        self._open.add(asking)
        try:
            await asyncio.wait([asking])
            if asking.cancelled():
                return ErrorData(code=REFUSED, message="the call is over")
            said = TextContent(type="text", text=asking.result())
            return CreateMessageResult(role="assistant", content=said, model="agent", stop_reason="endTurn")
        except Error as exc:
            return ErrorData(code=REFUSED, message=str(exc))
        finally:
            asking.cancel()
            self._open.discard(asking)

    def _sampling(self, params: "types.CreateMessageRequestParams") -> SamplingRequest:
        hints = params.model_preferences.hints if params.model_preferences else None
        return SamplingRequest(
            self._server,
            messages_of(params.messages, self.clean),
            params.max_tokens,
            self.clean(params.system_prompt or ""),
            params.temperature,
            [self.clean(each) for each in params.stop_sequences or ()],
            [self.clean(hint.name) for hint in hints or () if hint.name],
        )

    async def ask(self, context: object, params: "types.ElicitRequestParams") -> "types.ElicitResult":
        """The user's answer, in the library's type; `cancel` if nobody can be asked."""
        from mcp_types import ElicitResult

        question = self._translated(params) if self._calls and self._forms < MOST_FORMS else None
        if question is None:
            return ElicitResult(action="cancel")
        self._forms += 1
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
        """Handle a message that a server sends by itself; only the completion of a page matters."""
        if getattr(message, "method", "") != "notifications/elicitation/complete":
            return
        if id := self._pages.pop(message.params.elicitation_id, None):  # and not of a page that nobody was shown
            self._session.client.complete_elicitation(s.CompleteElicitationNotification(elicitation_id=id))

    def _translated(self, params: "types.ElicitRequestParams") -> s.FormElicitation | s.UrlElicitation | None:
        """A server's question as a request to the client; None if the client cannot be asked."""
        who: dict[str, Any] = {
            "message": f"{self._server}: {self.clean(params.message)}",
            "session_id": self._session.id,
        }
        if not offered(self._session.client.offers, f"elicitation.{params.mode}"):
            return None
        if params.mode == "url":
            id = self._id(params.elicitation_id)
            if params.elicitation_id:
                self._pages[params.elicitation_id] = id
            while len(self._pages) > MOST_FORMS:
                del self._pages[next(iter(self._pages))]
            return s.UrlElicitation(**who, url=self.clean(params.url), elicitation_id=id)
        try:
            schema = cleaned(params.requested_schema, self.clean)
            form = codec.decode(msgspec.json.encode(schema), s.ElicitationSchema)
        except (ValueError, TypeError):
            return None
        return s.FormElicitation(**who, requested_schema=form)

    def _id(self, id: str | None) -> str:
        return f"{self._server}/{self.clean(id)}" if id else new_id("ask")
