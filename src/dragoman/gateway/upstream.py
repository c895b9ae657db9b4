"""An agent's process as the gateway holds it: a raw relay, so that what we do not know survives.

One process serves all sessions of one principal with one agent, or one of them alone.  Files and terminals are
lent by a `Host` on this machine, or asked of the client that owns the workspace; everything else an agent asks is
asked of a session.
"""

import asyncio
import functools
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Literal, Protocol

import msgspec
from msgspec import Raw, Struct

from .. import __version__
from .. import schema as s
from ..agent import PROTOCOL_VERSION
from ..client import Client
from ..connecting import Target
from ..connection import Connection
from ..errors import AgentStartError, ConnectionClosed, Error, InternalError, MethodNotFound, RpcError
from ..host.host import Host
from ..host.permissions.engine import Preset
from ..host.permissions.questions import Question
from ..proxy import Relayed
from ..roles import ClientRole
from ..rpc import Method, Reply
from ..transports import Transport
from ..transports.translating import TranslatingTransport
from .records import members, raw, session_of

log = logging.getLogger("dragoman")

STRANGERS = 64  # sessions of an agent whose updates are kept though they are not known yet
STRANGER_UPDATES = 64  # of each
LENT = ("fs/", "terminal/", "_dragoman/fs/", "_dragoman/terminal/")
ASKED = ("session/request_permission", "elicitation/create")
START_TIMEOUT = 60.0


class Hosted(Struct, frozen=True, kw_only=True):
    """An agent a gateway offers: what starts it, and who lends it files and terminals.

    `isolated` agents run in a sandbox around their principal's workspace, in which `visible` can be read, too;
    `passes` names methods of an agent's own that clients may call besides those of the protocol.
    """

    target: Target
    env: Mapping[str, str] | None = None
    workspace: Literal["host", "client"] = "host"
    preset: Preset = "ask"
    sandbox: bool = False
    process_per: Literal["principal", "session"] = "principal"
    isolated: bool = False
    visible: Sequence[str] = ()
    passes: Sequence[str] = ()
    state: str | None = None  # where a host keeps its audit log


class Party(Protocol):
    """A session, as the process behind it sees it."""

    def heard(self, params: dict[str, Raw]) -> None: ...
    async def asked(self, method: str, params: dict[str, Raw]) -> Raw: ...
    async def lent(self, method: str, params: dict[str, Raw]) -> Raw: ...
    def lost(self) -> None: ...


class Upstream:
    """A running agent; `start` it, `close` it."""

    def __init__(
        self, agent: Hosted, wire: AbstractAsyncContextManager[Transport], ended: "Callable[[Upstream], None]"
    ) -> None:
        self.agent, self._wire = agent, wire
        self.greeting: dict[str, Raw] = {}  # its answer to initialize
        self.offers = s.AgentCapabilities()
        self.parties: dict[str, Party] = {}  # by the id the agent gave the session
        self.parties_lost = 0  # how many sessions it had when it ended
        self.host: Host | None = None
        self.connection: Connection
        self._ended = ended
        self._strangers: dict[str, list[dict[str, Raw]]] = {}
        self._running: asyncio.Task[None] | None = None
        self._way = AsyncExitStack()

    @property
    def is_alive(self) -> bool:
        return self._running is not None and not self.connection.closed

    async def start(self) -> None:
        """Start the process and shake hands; raises AgentStartError when that fails."""
        try:
            async with asyncio.timeout(START_TIMEOUT):
                await self._start()
        except TimeoutError:
            await self.close()
            raise AgentStartError("the agent does not answer initialize") from None
        except BaseException:
            await self.close()
            raise

    async def _start(self) -> None:
        wire = await self._way.enter_async_context(self._wire)
        self.connection = Connection(TranslatingTransport(wire, "agent"), quiet=True)
        lender: Client = _ClientSide()
        if self.agent.workspace == "host":
            self.host = lender = Host(
                preset=self.agent.preset,
                asker=self._ask_for_host,
                sandbox=self.agent.sandbox,
                state=self.agent.state,
                audit=None if self.agent.state else False,
                store=None if self.agent.state else False,
            )
            self.host.attach(self.connection)
        after = self.connection.on_close
        self.connection.on_close = functools.partial(self._over, after)
        self.connection.answer_with(
            Relayed(self._requests(), self._unknown), {"session/update": self._note("session/update", self._heard)}
        )
        self._running = asyncio.create_task(self.connection.run(), name="agent's process")
        capabilities = _answered_by_somebody(lender.capabilities())
        greeting = await self.call(
            "initialize",
            raw(
                s.InitializeRequest(
                    protocol_version=PROTOCOL_VERSION,
                    client_capabilities=capabilities,
                    client_info=s.Implementation(name="dragoman-gateway", version=__version__),
                )
            ),
        )
        self.greeting = members(greeting)
        self.offers = msgspec.json.decode(self.greeting.get("agentCapabilities", b"{}"), type=s.AgentCapabilities)

    async def close(self) -> None:
        """End the process."""
        if self._running:
            self._running.cancel()
            await asyncio.wait([self._running])
        if self.host:
            await self.host.take_back()
            self.host.detach()
        await self._way.aclose()

    # To the agent

    async def call(self, name: str, params: Raw) -> Raw:
        """Ask the agent; raises what it answered as it was, or ConnectionClosed when it is gone."""
        try:
            return await self.connection.call(Method(name, Raw, Raw), params)  # type: ignore[no-any-return]
        except RpcError as exc:
            raise RpcError.of(exc.code, exc.message, exc.data) from None
        except ConnectionClosed:
            raise
        except Error as exc:
            raise InternalError(str(exc)) from None

    async def open(self, name: str, params: Raw, party: Party) -> tuple[str, Raw]:
        """Ask for a new session; what the agent tells of it right after its answer is not lost."""
        answer: asyncio.Future[tuple[str, Raw]] = asyncio.get_running_loop().create_future()

        def settle(reply: Reply) -> None:
            if answer.done():
                return
            try:
                if reply.error:
                    raise reply.error
                id = session_of(members(reply.result))
                if id in self.parties:
                    raise InternalError("the agent gave a new session the id of another one")
                self.adopt(id, party)
                answer.set_result((id, reply.result))
            except RpcError as exc:
                answer.set_exception(RpcError.of(exc.code, exc.message, exc.data))
            except Exception as exc:
                answer.set_exception(exc)

        self.connection.submit(Method(name, Raw, Raw), params, settle)
        return await answer

    def adopt(self, id: str, party: Party) -> None:
        """From now on a session's messages are this party's."""
        self.parties[id] = party
        for update in self._strangers.pop(id, ()):
            party.heard(update)

    def note(self, name: str, params: Raw) -> None:
        if self.is_alive:
            self.connection.note(Method(name, Raw, is_request=False), params)

    # From the agent

    def _note(self, name: str, handler: Callable[[Raw], None]) -> Method:
        return Method(name, Raw, is_request=False, handler=handler)

    def _heard(self, params: Raw) -> None:
        found = members(params)
        id = session_of(found)
        if party := self.parties.get(id):
            party.heard(found)
        elif id in self._strangers or len(self._strangers) < STRANGERS:
            kept = self._strangers.setdefault(id, [])
            if len(kept) < STRANGER_UPDATES:
                kept.append(found)

    def _requests(self) -> dict[str, Method]:
        lent = {}
        if self.host:
            typed, _ = self.host.answers(ClientRole)
            lent = {name: method for name, method in typed.items() if name.startswith(LENT)}
        asked = {name: Method(name, Raw, Raw, handler=functools.partial(self._asked, name)) for name in ASKED}
        return {**lent, **asked}

    async def _asked(self, name: str, params: Raw) -> Raw:
        found = members(params)
        return await self._party(found).asked(name, found)

    def _unknown(self, name: str) -> Method:
        """Whatever else the agent asks: of the client that owns the workspace, if that is who lends it."""

        async def refuse(params: Raw) -> Raw:
            raise MethodNotFound(data={"method": name})

        async def relay(params: Raw) -> Raw:
            found = members(params)
            return await self._party(found).lent(name, found)

        relays = self.agent.workspace == "client" and name.startswith(LENT)
        return Method(name, Raw, Raw, handler=relay if relays else refuse)

    def _party(self, found: dict[str, Raw]) -> Party:
        if (party := self.parties.get(session_of(found))) is None:
            raise RpcError.of(-32002, "Session not found")
        return party

    async def _ask_for_host(self, question: Question) -> str | None:
        """Have the people at a session decide on something the host was asked to do."""
        party = self.parties.get(question.session_id)
        if party is None:
            return None
        kinds = {True: "allow_once", False: "reject_once"}
        shown = "\n".join((question.text, *question.warnings, question.detail)).strip()
        request = {
            "sessionId": question.session_id,
            "toolCall": {
                "toolCallId": f"host-{msgspec.json.encode(question.key).hex()[:24]}",
                "title": question.title,
                "content": [{"type": "content", "content": {"type": "text", "text": shown}}],
            },
            "options": [
                {
                    "optionId": option.id,
                    "name": option.label,
                    "kind": kinds[option.allows] if option.scope == "once" else "allow_always",
                }
                for option in question.options
            ],
        }
        answer = await party.asked("session/request_permission", members(raw(request)))
        outcome = msgspec.json.decode(answer, type=s.RequestPermissionResponse).outcome
        return outcome.option_id if isinstance(outcome, s.SelectedPermissionOutcome) else None

    def _over(self, after: Callable[[], None] | None) -> None:
        if after:
            after()
        parties, self.parties = self.parties, {}
        self.parties_lost = len(parties)
        for party in parties.values():
            party.lost()
        self._ended(self)


class _ClientSide(Client):
    """Stands for the client that lends its workspace when the agent is told what it may ask for."""

    async def fill_form(self, form: s.FormElicitation) -> Mapping[str, s.ElicitationContentValue] | None:
        raise NotImplementedError

    async def open_url(self, question: s.UrlElicitation) -> bool:
        raise NotImplementedError


def _answered_by_somebody(capabilities: s.ClientCapabilities) -> s.ClientCapabilities:
    """What an agent is told it may ask for, whoever will answer."""
    files = s.FileSystemCapabilities(read_text_file=True, write_text_file=True)
    forms = s.ElicitationCapabilities(form=s.ElicitationFormCapabilities(), url=s.ElicitationUrlCapabilities())
    return msgspec.structs.replace(capabilities, fs=files, terminal=True, elicitation=forms)
