"""Routes the messages of an agent's process to their session, or to the process's clients.

A `Host` on this machine lends files and terminals, or the client that owns the workspace does.  An agent's other
requests go to a session or to the process's `Audience`.
"""

import contextlib
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Raw

from ... import codec
from ... import schema as s
from ...errors import MethodNotFound, RpcError
from ...events import Method
from ...host.permissions.questions import Question
from ...proxy.relaying import Relayed
from ...roles import ClientRole
from ..access.introductions import lends
from ..early_updates import EarlyUpdates
from ..log.records import members, optional, raw, session_of, text
from .host_questions import answer_of, permission_request
from .mcp_servers import MESSAGE

if TYPE_CHECKING:
    from .upstream import Party, Upstream

LENT = ("fs/", "terminal/", "_dragoman/fs/", "_dragoman/terminal/")
PERMISSION, ELICITATION = "session/request_permission", "elicitation/create"
COMPLETED = "elicitation/complete"
TOOL_CALL = b'"tool_call'  # bytes that an update of a tool call contains


class AgentMessages:
    """Handles the messages of one agent's process."""

    def __init__(self, process: "Upstream") -> None:
        self._process = process
        self._early: EarlyUpdates[dict[str, Raw]] = EarlyUpdates()

    def attach(self) -> None:
        """Handle the messages of the process from now on."""
        requests = Relayed(self._requests(), self._unknown)
        self._process.connection.answer_with(requests, Relayed(self._notifications(), self._unknown_note))

    def early(self, id: str) -> list[dict[str, Raw]]:
        """The updates that the agent sent for a session before its id was known."""
        return self._early.take(id)

    def _notifications(self) -> dict[str, Method]:
        completed = functools.partial(self._process.audience.completed, COMPLETED)
        known: dict[str, Callable[[Raw], None]] = {"session/update": self._heard, COMPLETED: completed}
        known[MESSAGE] = self._process.servers.tell
        return {name: _note(name, handler) for name, handler in known.items()}

    def _unknown_note(self, name: str) -> Method:
        """Pass any other notification to its session, or to all clients."""

        def tell(params: Raw) -> None:
            id = _session_of(params)
            if id is None:
                self._process.audience.tell(name, params)
            elif party := self._process.parties.get(id):
                party.told(name, params)

        return _note(name, tell)

    def _heard(self, params: Raw) -> None:
        found = members(params)
        id = session_of(found)
        if self._process.host and TOOL_CALL in bytes(found.get("update", b"")):
            with contextlib.suppress(codec.Invalid):
                self._process.host.note_call(codec.decode(params, s.SessionNotification))
        if party := self._process.parties.get(id):
            party.heard(found)
        else:
            self._early.keep(id, found, len(params))

    def _requests(self) -> dict[str, Method]:
        lent = {}
        if self._process.host:
            typed, _ = self._process.host.answers(ClientRole)
            lent = {name: method for name, method in typed.items() if name.startswith(LENT)}
        asked = {PERMISSION: self._asked, ELICITATION: self._elicited}
        return (
            lent
            | self._process.servers.answers()
            | {name: Method(name, Raw, Raw, handler=handler) for name, handler in asked.items()}
        )

    async def _asked(self, params: Raw) -> Raw:
        """Pass the agent's own question to people unchanged; the host counts their yes for what it showed."""
        found = members(params)
        answer = await self._party(found).asked(PERMISSION, found)
        if self._process.host is None:
            return answer
        try:
            question = codec.decode_params(params, s.RequestPermissionRequest)
            response = codec.decode(answer, s.RequestPermissionResponse)
        except codec.Invalid:
            return answer
        taken = await self._process.host.answered(question, response)
        return answer if taken is response else raw(taken)

    async def _elicited(self, params: Raw) -> Raw:
        """Pass on a question to the user, from a session or from a client's request."""
        found = members(params)
        if "sessionId" not in found:
            return await self._process.audience.asked(self._process.connection, ELICITATION, params)
        party = self._party(found)
        if (id := found.get("elicitationId")) is not None:
            self._process.audience.remember(id, party.told)
        return await party.asked(ELICITATION, found)

    def _unknown(self, name: str) -> Method:
        """Pass on any other request: to the client that owns the workspace, one of the session, or any client."""

        async def relay(params: Raw) -> Raw:
            id = _session_of(params)
            if name.startswith(LENT):
                if self._process.agent.workspace == "host" or not lends(self._process.told, name):
                    raise MethodNotFound(data={"method": name})
                return await self._party(members(params)).clients.lent(name, members(params))
            if not name.startswith("_"):
                raise MethodNotFound(data={"method": name})
            if id is None:
                return await self._process.audience.asked(self._process.connection, name, params)
            return await self._party(members(params)).clients.requested(name, members(params))

        return Method(name, Raw, Raw, handler=relay)

    def _party(self, found: dict[str, Raw]) -> "Party":
        if (party := self._process.parties.get(session_of(found))) is None:
            raise RpcError.of(-32002, "Session not found")
        return party

    async def ask_for_host(self, question: Question) -> str | None:
        """Let the people at a session decide on an operation of the host."""
        party = self._process.parties.get(question.session_id)
        if party is None:
            return None
        answer = await party.asked(PERMISSION, members(raw(permission_request(question))))
        return answer_of(answer)


def _note(name: str, handler: Callable[[Raw], None]) -> Method:
    return Method(name, Raw, is_request=False, handler=handler)


def _session_of(params: Raw) -> str | None:
    """The session in the params of a message of any form; None if it names none."""
    return text(optional({"params": params}, "params"), "sessionId")
