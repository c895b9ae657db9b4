"""The HTTP server for Cursor's chat.

    POST   /acp/sendMessage          {composerId, modelName, text | prompt, workspacePath}: events of the turn
    POST   /acp/abort                {composerId}
    POST   /acp/permission           {composerId, requestId, optionId}
    GET    /acp/agents               the models, each named acp:<agent>
    GET    /acp/sessions             the composers
    GET    /acp/sessions/ID          a composer: its bubbles, whether it generates, its open questions
    GET    /acp/sessions/ID/events   its events from now on
    DELETE /acp/sessions/ID          delete it

The paths are a table of the gateway's `Routes`, which check the host name, the page and the token of every request.
"""

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable, Collection, Mapping, MutableMapping, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from ... import codec
from ... import schema as s
from ...errors import AuthRequired, Error, InvalidParams, Overloaded, ResourceNotFound
from ...framing import MAX_FRAME
from ...gateway.access.admission import Admission
from ...gateway.access.guard import Guard, values_of
from ...gateway.access.principals import PrincipalName
from ...gateway.gateway import Gateway
from ...gateway.web.routes import ANY, NOTHING_HERE, RoutedRequest, Routes, WebRoute
from ...host.display import visible
from ...transports.remote.server.answers import EVENTS, Receive, RequestRefused, Scope, Send, respond
from ...transports.remote.server.requests import Bodies
from ...transports.remote.sse import KEEP_ALIVE
from .composer import Composer
from .composers import Composers, KeptComposer
from .followers import Follower

MODEL = "acp:"  # the prefix of the names of models that are our agents
KEEP_ALIVE_EVERY = 15.0  # seconds
STATUS = {AuthRequired: 401, InvalidParams: 400, Overloaded: 429, ResourceNotFound: 404}
CORS = {
    "access-control-allow-methods": "GET, POST, DELETE",
    "access-control-allow-headers": "authorization, content-type",
    "access-control-allow-private-network": "true",
    "access-control-max-age": "600",
}
Body = TypeVar("Body")


class SendMessage(Struct, rename="camel"):
    """A message of the user; `prompt` has content blocks of the protocol, for more than a text."""

    composer_id: str
    model_name: str
    text: str = ""
    prompt: Sequence[msgspec.Raw] = ()
    workspace_path: str = ""


class Abort(Struct, rename="camel"):
    """Abort the turn of a composer."""

    composer_id: str


class PermissionAnswer(Struct, rename="camel"):
    """The option that the user chose; null for none."""

    composer_id: str
    request_id: str
    option_id: str | None = None


class CursorWeb:
    """The ASGI application."""

    def __init__(
        self, gateway: Gateway, admission: Admission, titles: Mapping[str, str], origins: Collection[str] = ()
    ) -> None:
        self.guard = Guard((), origins, lambda why: gateway.metrics.refusals.add(1, why))
        self.composers = Composers(gateway)
        self._titles = titles
        self._bodies = Bodies(MAX_FRAME)
        table = (
            WebRoute("OPTIONS", ANY, "anybody", _preflight),
            WebRoute("POST", "/acp/sendMessage", "principal", self._send_message),
            WebRoute("POST", "/acp/abort", "principal", self._abort),
            WebRoute("POST", "/acp/permission", "principal", self._permission),
            WebRoute("GET", "/acp/agents", "principal", self._models),
            WebRoute("GET", "/acp/sessions", "principal", self._list),
            WebRoute("GET", "/acp/sessions/{id}", "principal", self._show),
            WebRoute("GET", "/acp/sessions/{id}/events", "principal", self._events),
            WebRoute("DELETE", "/acp/sessions/{id}", "principal", self._delete),
            WebRoute(ANY, ANY, "principal", _unknown),
        )
        self._routes = Routes(self.guard, admission, table, dress=_allowing, refused=_refused)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            raise ValueError("only `dragoman cursor` can start this server")
        await self._routes(scope, receive, send)

    async def _body(self, request: RoutedRequest, kind: type[Body]) -> Body:
        types = values_of(request.scope, b"content-type")
        if [type.partition(";")[0].strip().lower() for type in types] != ["application/json"]:
            raise RequestRefused(415, "the body must be application/json")
        try:
            return msgspec.json.decode(await self._bodies.read(request.receive), type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
            raise RequestRefused(400, f"the body cannot be read: {exc}") from None

    async def _send_message(self, request: RoutedRequest) -> None:
        message = await self._body(request, SendMessage)
        agent = self._agent(message.model_name)
        prompt = _prompt(message)
        cwd = message.workspace_path or os.getcwd()
        if not os.path.isabs(cwd):
            raise RequestRefused(400, "workspacePath must be an absolute path")
        composer = await self.composers.open(_name(request), message.composer_id, agent, cwd)
        await _stream(composer, _sending(composer, prompt), request)

    async def _abort(self, request: RoutedRequest) -> None:
        composer = await self._opened(request, (await self._body(request, Abort)).composer_id)
        await _answer(request, {"aborted": composer is not None and await composer.abort()})

    async def _permission(self, request: RoutedRequest) -> None:
        answer = await self._body(request, PermissionAnswer)
        composer = await self._opened(request, answer.composer_id)
        try:
            if composer is None:
                raise KeyError
            composer.answer(answer.request_id, answer.option_id)
        except KeyError:
            raise RequestRefused(404, "there is no such open question") from None
        except ValueError:
            raise RequestRefused(400, "the question has no such option") from None
        await _answer(request, {"answered": True})

    async def _opened(self, request: RoutedRequest, id: str) -> Composer | None:
        """A composer of whoever asks, if it is open; raises an Error if they have none by this id."""
        principal = _name(request)
        await self.composers.find(principal, id)
        return self.composers.opened(principal, id)

    async def _models(self, request: RoutedRequest) -> None:
        models = [{"name": MODEL + name, "title": title} for name, title in self._titles.items()]
        await _answer(request, {"models": models})

    async def _list(self, request: RoutedRequest) -> None:
        principal = _name(request)
        kept = await self.composers.kept(principal)
        await _answer(request, {"sessions": [self._shown(principal, one) for one in kept]})

    async def _show(self, request: RoutedRequest) -> None:
        principal = _name(request)
        kept = await self.composers.find(principal, request.named["id"])
        said = await self.composers.bubbles(kept, principal)
        await _answer(request, {**self._shown(principal, kept), "bubbles": said})

    async def _events(self, request: RoutedRequest) -> None:
        composer = await self.composers.attach(_name(request), request.named["id"])
        await _stream(composer, _following(composer.follow), request)

    async def _delete(self, request: RoutedRequest) -> None:
        await self.composers.delete(_name(request), request.named["id"])
        await _answer(request, {"deleted": True})

    def _shown(self, principal: PrincipalName, kept: KeptComposer) -> dict[str, object]:
        composer = self.composers.opened(principal, kept.composer_id)
        return {
            "composerId": kept.composer_id,
            "modelName": MODEL + kept.agent,
            "workspacePath": kept.cwd,
            "generating": composer is not None and composer.is_generating,
            "questions": composer.questions if composer else [],
        }

    def _agent(self, model: str) -> str:
        agent = model.removeprefix(MODEL)
        if agent == model or agent not in self._titles:
            known = ", ".join(MODEL + name for name in self._titles)
            raise RequestRefused(400, f"there is no model {visible(model, limit=80)!r} here; there are {known}")
        return agent


async def _stream(composer: Composer, following: Awaitable[Follower], request: RoutedRequest) -> None:
    """Send the events of a composer; a reader that disconnects does not affect the turn."""
    try:
        follower = await following
    except OverflowError as exc:
        raise RequestRefused(429, str(exc)) from None
    try:
        headers = [(b"content-type", EVENTS.encode()), (b"cache-control", b"no-cache")]
        await request.send({"type": "http.response.start", "status": 200, "headers": headers})
        hung_up = asyncio.ensure_future(_until_disconnected(request.receive))
        hung_up.add_done_callback(lambda _: follower.end())
        try:
            await _write(follower, request.send)
        finally:
            hung_up.cancel()
            await asyncio.wait([hung_up])
        await request.send({"type": "http.response.body", "body": b""})
    finally:
        composer.let_go(follower)


async def _following(follow: Callable[[], Follower]) -> Follower:
    return follow()


async def _sending(composer: Composer, prompt: Sequence[s.ContentBlock]) -> Follower:
    return await composer.send(prompt)


async def _write(follower: Follower, send: Send) -> None:
    while True:
        events = b""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(KEEP_ALIVE_EVERY):
                if not (events := await follower.take()):
                    return
        await send({"type": "http.response.body", "body": events or KEEP_ALIVE, "more_body": True})


async def _until_disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _prompt(message: SendMessage) -> list[s.ContentBlock]:
    """The user's message as content blocks; raises RequestRefused if it is empty."""
    try:
        blocks: list[s.ContentBlock] = [codec.decode(block, s.ContentBlock) for block in message.prompt]
    except codec.Invalid as exc:
        raise RequestRefused(400, f"the prompt cannot be read: {exc}") from None
    if message.text:
        blocks.insert(0, s.TextContent(text=message.text))
    if not blocks:
        raise RequestRefused(400, "the message is empty: it needs a text or a prompt")
    return blocks


async def _answer(request: RoutedRequest, answer: object) -> None:
    await respond(request.send, 200, codec.encode(answer))


async def _preflight(request: RoutedRequest) -> None:
    await respond(request.send, 204, headers=CORS)


async def _unknown(request: RoutedRequest) -> None:
    raise RequestRefused(404, f"{NOTHING_HERE}; see dragoman cursor --help")


def _name(request: RoutedRequest) -> PrincipalName:
    return PrincipalName(request.principal.name)


def _refused(exc: Error) -> RequestRefused:
    """How a page is told an error."""
    if isinstance(exc, RequestRefused):
        return exc
    return RequestRefused(next((status for kind, status in STATUS.items() if isinstance(exc, kind)), 502), str(exc))


def _allowing(scope: Scope, send: Send) -> Send:
    """Let the requesting page, which was checked before, read the answer."""
    origins = values_of(scope, b"origin")
    if not origins:
        return send
    headers = [(b"access-control-allow-origin", origins[0].encode("latin-1")), (b"vary", b"origin")]

    async def sending(event: MutableMapping[str, Any]) -> None:
        if event["type"] == "http.response.start":
            event = {**event, "headers": [*event["headers"], *headers]}
        await send(event)

    return sending
