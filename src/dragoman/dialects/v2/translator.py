"""ACP version 2, for a peer that speaks it, while all other code knows version 1 only.

The prompt of a client of version 2 is answered when it has been added to the conversation, and our agent's answer
becomes the `state_update` with the stop reason.  With an agent of version 2 it is the reverse: our prompt is
answered when the session is idle again.  Calls that every agent of version 2 must answer, and that our agent may
lack, are answered here.
"""

from typing import ClassVar

from ...foundation.documents import document
from ..engine.flows import Ask, Fault, Flow, Message
from ..engine.shapes import Fields
from ..engine.translator import MethodRow
from .handshake import (
    UNKNOWN,
    agent_inward,
    agent_outward,
    client_inward,
    client_outward,
    info_of,
    is_version_2_answer,
    offered,
    original,
)
from .permissions import ELICITATION, OUTCOME, PERMISSION
from .sessions import SessionCalls
from .shapes import LOGINS

VERSION = 2
UNSUPPORTED = -32022
# Between two peers that translate, calls that version 2 lacks are sent under their names in version 1.
_OURS = "_dragoman/v1/"


# Optional methods of an agent, and the capability that announces each.
_OFFERED = {
    "session/load": ("loadSession",),
    **{f"session/{name}": ("sessionCapabilities", name) for name in ("list", "resume", "close", "fork")},
}


class V2(SessionCalls):
    name = "v2"
    takes_batches = True
    losses: ClassVar[dict[str, str]] = {
        "diff without text": "a diff that names files and shows no text becomes a sentence in version 1",
        "message replaced": "a message whose earlier content is replaced is shown again as a new one in version 1",
        "tool name cleared": "version 1 cannot clear the name of a tool call",
        "boolean option": "a client of version 1 that does not announce switches is shown none",
        "notices": "a client of version 1 that does not announce notices is shown none",
        "compaction": "a client of version 1 that does not announce compactions is shown none",
        "subagents": "a client of version 1 that does not announce subagents is shown none",
        "plan without entries": "a plan in a file or in Markdown needs a client that announces plan updates",
        "permission option": "an option of a kind that version 1 does not know is not offered there",
        "permission outcome": "an outcome that version 1 does not know becomes cancelled",
        "session list": "of an agent that cannot list sessions, those of the connection are listed",
        "sse server": "version 2 has no MCP servers over SSE; one is passed on as an unknown kind",
    }
    to_agent: ClassVar[dict[str, MethodRow]] = {
        "initialize": MethodRow(inward="greeted", outward="greet"),
        "authenticate": MethodRow(name="auth/login"),
        "logout": MethodRow(name="auth/logout"),
        "session/new": MethodRow(inward="opened", outward="open"),
        "session/resume": MethodRow(inward="resumed", outward="resume"),
        "session/load": MethodRow(name=_OURS + "session/load", outward="load"),
        "session/fork": MethodRow(inward="forked", outward="fork"),
        "session/list": MethodRow(inward="listed"),
        "session/close": MethodRow(inward="closed", outward="close"),
        "session/prompt": MethodRow(inward="prompted", outward="prompt"),
        "session/set_mode": MethodRow(name=_OURS + "session/set_mode", outward="set_mode"),
        "session/set_config_option": MethodRow(inward="option_set", outward="set_option"),
        "session/status": MethodRow(result=Fields(carried=("state",))),
        "_dragoman/tool_call/cancel": MethodRow(name="tool_call/cancel", inward="tool_cancelled"),
        "_dragoman/terminal/cancel": MethodRow(name="terminal/cancel", inward="terminal_cancelled"),
    }
    to_client: ClassVar[dict[str, MethodRow]] = {
        "session/request_permission": MethodRow(PERMISSION, OUTCOME, outward="ask_permission"),
        "elicitation/create": MethodRow(ELICITATION, outward="ask_form"),
        "fs/read_text_file": MethodRow(name=_OURS + "fs/read_text_file"),
        "fs/write_text_file": MethodRow(name=_OURS + "fs/write_text_file"),
        "terminal/create": MethodRow(name=_OURS + "terminal/create"),
        "terminal/output": MethodRow(name=_OURS + "terminal/output"),
        "terminal/wait_for_exit": MethodRow(name=_OURS + "terminal/wait_for_exit"),
        "terminal/kill": MethodRow(name=_OURS + "terminal/kill"),
        "terminal/release": MethodRow(name=_OURS + "terminal/release"),
    }

    _is_greeted = False

    # Initialization

    def greeted(self, params: Message) -> Flow:
        """Answer the `initialize` of a client of version 2."""
        requested = _version(params)
        if requested < VERSION:
            about: Message = {"requested": requested, "supported": [VERSION]}
            raise Fault(UNSUPPORTED, "Unsupported protocol version", about)
        offers = params.get("capabilities")
        offers = offers if isinstance(offers, dict) else {}
        self.client_offers, self.peer_translates = client_inward(offers), original(offers) is not None
        asked: Message = {"protocolVersion": 1, "clientCapabilities": self.client_offers}
        asked |= {
            name: params[here] for name, here in (("clientInfo", "info"), ("_meta", "_meta")) if here in params
        }
        result = document(self.told_by_us((yield Ask("initialize", asked))))
        self.agent_offers = document(result.get("agentCapabilities") or {})
        self._is_greeted = True
        said: Message = {
            "protocolVersion": VERSION,
            "info": result.get("agentInfo") or UNKNOWN,
            "capabilities": agent_outward(self.agent_offers),
            "authMethods": LOGINS.outward(result.get("authMethods") or [], self),
        }
        return {**said, "_meta": result["_meta"]} if "_meta" in result else said

    def greet(self, params: Message) -> Flow:
        """Send our client's `initialize` to an agent of version 2, which may turn out to speak version 1."""
        _version(params)
        offers = params.get("clientCapabilities")
        self.client_offers = offers if isinstance(offers, dict) else {}
        said: Message = {
            "protocolVersion": VERSION,
            "info": info_of(params.get("clientInfo")),
            "capabilities": client_outward(self.client_offers),
        }
        said |= {"_meta": params["_meta"]} if "_meta" in params else {}
        answer = yield Ask("initialize", said, to_peer=True)
        result = document(self.told_by_peer(answer))
        if not is_version_2_answer(result):
            again = yield Ask("initialize", params, to_peer=True)  # it does not know our capabilities yet
            self.is_idle = True
            return {**document(document(again).get("result") or result), "protocolVersion": 1}
        logins = LOGINS.inward(result.get("authMethods") or [], self)
        theirs = document(result.get("capabilities") or {})
        self.agent_offers = agent_inward(theirs, bool(logins))
        self.peer_translates, self._is_greeted = original(theirs) is not None, True
        heard: Message = {"protocolVersion": 1, "agentCapabilities": self.agent_offers, "authMethods": logins}
        heard |= {
            name: result[here] for name, here in (("agentInfo", "info"), ("_meta", "_meta")) if here in result
        }
        return heard

    # Calls

    def _call(self, message: Message, method: str, from_peer: bool) -> None:
        """Translate a call; refuse those that version 2 no longer has, and those that are not offered."""
        if not self._is_greeted and method != "initialize":
            self._send(not from_peer, message)  # to be refused
        elif (from_peer and self._is_gone(method)) or (not from_peer and self._is_missing(method)):
            error: Message = {"code": -32601, "message": "Method not found", "data": {"method": method}}
            self._fail(from_peer, message["id"], error)
        else:
            super()._call(message, method, from_peer)

    def _is_gone(self, method: str) -> bool:
        return method not in self._theirs and (method in self.to_agent or method in self.to_client)

    def _is_missing(self, method: str) -> bool:
        return method in _OFFERED and self.peer == "agent" and not offered(self.agent_offers, *_OFFERED[method])

    # Calls that a peer of version 1 can only answer as an extension

    def tool_cancelled(self, params: Message) -> Flow:
        return (yield from self._extended("_dragoman/tool_call/cancel", params, "tool call"))

    def terminal_cancelled(self, params: Message) -> Flow:
        return (yield from self._extended("_dragoman/terminal/cancel", params, "terminal"))

    def _extended(self, method: str, params: Message, what: str) -> Flow:
        answer = document((yield Ask(method, params)))
        if document(answer.get("error") or {}).get("code") == -32601:
            raise Fault(-32602, f"Invalid params: this {what} cannot be cancelled")
        return self.told_by_us(answer)


def _version(params: Message) -> int:
    """The protocol version that a client requests."""
    version = params.get("protocolVersion")
    if isinstance(version, bool) or not isinstance(version, int | float):
        version = -1
    if not 0 <= version < 2**16 or version != int(version):
        raise Fault(-32602, "Invalid params: protocolVersion must be an integer from 0 to 65535")
    return int(version)
