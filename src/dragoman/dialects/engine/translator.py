"""The engine of every dialect: it matches calls with their answers, applies tables and runs flows.

Most of a dialect is a table of `MethodRow`s, each with the `Shape` of its params and of its result.  A translation
that a table cannot express is a flow (`flows.py`).
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar

from msgspec import Struct

from ...foundation.documents import Json, document, members
from .flows import Ask, Fault, Flow, Message, Pause, RunningFlow, StartFlow, Tell
from .pieces import PieceParams, read, reader
from .shapes import SAME, Shape

Peer = Literal["agent", "client"]
Key = TypeVar("Key")
Value = TypeVar("Value")

MAX_CALLS = 10_000  # open requests above which a peer is refused; our own peers refuse far earlier
MAX_KEPT = 10_000  # remembered items of each kind: sessions, terminals, tool calls
# the errors that reading a wrong shape raises
MALFORMED = (AttributeError, IndexError, KeyError, TypeError, ValueError)


_NOTHING: list[Any] = []  # one empty list for all translations; nothing is added to it


class Translation:
    """The messages that result from translating one message."""

    __slots__ = ("back", "onward", "wakes")

    def __init__(
        self,
        onward: list[Message] | None = None,
        back: list[Message] | None = None,
        wakes: list[tuple[float, int]] | None = None,
    ) -> None:
        self.onward = onward or _NOTHING  # messages for the other side of the translator
        self.back = back or _NOTHING  # messages for the sender
        self.wakes = wakes or _NOTHING  # seconds, and the key with which `timer_due` is to be called after them


class Surroundings(NamedTuple):
    """Facts that a translator cannot know by itself."""

    now: Callable[[], str] = lambda: "1970-01-01T00:00:00Z"  # the time in ISO 8601
    directory: str = "/"  # the directory of a session that names none


class MethodRow(NamedTuple):
    """A row of a dialect's method table, under the method's name in version 1."""

    params: Shape = SAME
    result: Shape = SAME
    name: str = ""  # the dialect's name, where it differs
    inward: str = ""  # the flow that answers the peer's call
    outward: str = ""  # the flow that answers our call


UNTOLD = (*MALFORMED, Fault)


class Remembered(dict[Key, Value]):
    """A bounded dictionary of remembered items; above the limit, the oldest are forgotten."""

    def __init__(self, most: int = MAX_KEPT) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, key: Key, value: Value) -> None:
        super().__setitem__(key, value)
        if len(self) > self._most:
            del self[next(iter(self))]


class _Open(NamedTuple):
    """A call that waits for its answer."""

    call: MethodRow
    id: Json  # as the caller wrote it
    method: str  # in version 1
    params: Json  # in version 1


class Translator:
    """Translates for a connection whose peer, an agent or a client, speaks the dialect.

    `inward` and `outward` take a decoded JSON-RPC message and return a `Translation`: `onward` goes where the
    message was going, `back` goes to its sender, and `timer_due` is to be called when one of `wakes` is due.  The
    result of `timer_due` is directed as if the peer had sent it.  `is_idle` says that nothing will need translation
    any more, so that the translator can be removed from the connection.
    """

    name: ClassVar[str]
    losses: ClassVar[Mapping[str, str]] = {}  # the rows of `report`, each with a description of the loss
    to_agent: ClassVar[Mapping[str, MethodRow]] = {}  # methods that clients call, by their names in version 1
    to_client: ClassVar[Mapping[str, MethodRow]] = {}  # methods that agents call
    piece: ClassVar[type[Struct]] = PieceParams  # the type of the peer's text updates
    takes_batches: ClassVar[bool] = False  # whether a frame may contain several messages
    is_idle = False

    def __init__(self, peer: Peer, surroundings: Surroundings | None = None) -> None:
        self.peer: Peer = peer
        self.surroundings = surroundings or Surroundings()
        self.report: Counter[str] = Counter()  # how often something was lost, by row
        theirs, ours = (self.to_agent, self.to_client) if peer == "client" else (self.to_client, self.to_agent)
        # methods that the peer calls
        self._theirs = {call.name or name: (name, call) for name, call in theirs.items()}
        self._ours = {name: (call.name or name, call) for name, call in ours.items()}  # methods that we call
        self._pending: tuple[dict[Json, _Open], dict[Json, _Open]] = ({}, {})  # open calls: ours and the peer's
        self._read_piece = reader(self.piece)
        self._asking: dict[tuple[bool, Json], RunningFlow] = {}
        self._calls: set[RunningFlow] = set()  # calls that flows will answer
        self._sleeping: dict[int, tuple[RunningFlow, tuple[bool, str] | None]] = {}
        self._count = 0
        self._to_us: list[Message] = []
        self._to_peer: list[Message] = []
        self._wakes: list[tuple[float, int]] = []
        self.client_offers: Message = {}  # the capabilities of both sides, as version 1 has them
        self.agent_offers: Message = {}

    # Called by the transport

    def inward(self, message: Message) -> Translation:
        """Translate a message of the peer into version 1."""
        self._take(message, from_peer=True)
        return self._outbox()

    def outward(self, message: Message) -> Translation:
        """Translate our message into the dialect."""
        self._take(message, from_peer=False)
        out = self._outbox()
        return Translation(out.back, out.onward, out.wakes)

    def quick_inward(self, frame: bytes) -> bytes | None:
        """Translate a text frame of the peer into version 1; None for a frame that `inward` has to translate."""
        try:
            piece = self._read_piece(frame).params
        except ValueError:
            return None
        return self.piece_inward(piece, frame)

    def quick_outward(self, frame: bytes) -> bytes | None:
        """Translate our text frame into the dialect; None for a frame that `outward` has to translate."""
        try:
            piece = read(frame).params
        except ValueError:
            return None
        return self.piece_outward(piece, frame)

    def timer_due(self, key: int) -> Translation:
        """Continue what waited for the time of `key`."""
        running, asked = self._sleeping.pop(key, (None, None))
        if running is None or (asked and asked not in self._asking):
            return Translation()
        if asked:
            del self._asking[asked]
            self._send(asked[0], {"method": "$/cancel_request", "params": {"requestId": asked[1]}})
        self._carry_on(running, None)
        return self._outbox()

    def failed(self, message: Message, *, from_peer: bool) -> Translation:
        """The result for a message that could not be translated: a caller that waits gets an error."""
        id, is_call = message.get("id"), isinstance(message.get("method"), str)
        if type(id) in (int, str):
            if is_call:
                error = _failure("this request cannot be translated")
                self._calls = {call for call in self._calls if (call.from_peer, call.id) != (from_peer, id)}
                self._fail(from_peer, id, error)
            else:
                call = self._pending[not from_peer].pop(id, None)
                error = _failure("the answer cannot be translated")
                self._fail(not from_peer, call.id if call else id, error)
        out = self._outbox()
        return out if from_peer else Translation(out.back, out.onward, out.wakes)

    def lose(self, row: str) -> None:
        """Count a loss."""
        self.report[row] += 1

    # Overridden by dialects

    def note_inward(self, method: str, params: Json) -> list[tuple[str, Json]]:
        """Translate a notification of the peer into notifications of version 1."""
        if (row := self._theirs.get(method)) is None:
            return [(method, params)]
        return [(row[0], row[1].params.inward(params, self))]

    def note_outward(self, method: str, params: Json) -> list[tuple[str, Json]]:
        """Translate our notification into notifications of the dialect."""
        if (row := self._ours.get(method)) is None:
            return [(method, params)]
        return [(row[0], row[1].params.outward(params, self))]

    def piece_inward(self, piece: Any, frame: bytes) -> bytes | None:
        """Translate a piece of text from the peer, read as `piece`; None for one that `inward` has to translate."""
        return frame

    def piece_outward(self, piece: PieceParams, frame: bytes) -> bytes | None:
        """Translate our piece of text; None for one that `outward` has to translate."""
        return frame

    def passed(self, method: str, params: Json, result: Json) -> None:
        """A call was answered; all values have the form of version 1."""
        if method == "initialize":
            self.client_offers = members(document(params).get("clientCapabilities"))
            self.agent_offers = members(document(result).get("agentCapabilities"))

    def error_inward(self, error: Json) -> Json:
        """Translate an error of the peer into version 1; a dialect overrides this."""
        return error

    def error_outward(self, error: Json) -> Json:
        """Translate an error of version 1 for the peer; a dialect overrides this."""
        return error

    # Used by flows

    def told_by_us(self, answer: Message | None) -> Json:
        """The result that our side gave a flow; an error ends the flow."""
        answer = document(answer)
        if "error" in answer:
            raise Fault.of(answer["error"])
        return answer.get("result")

    def told_by_peer(self, answer: Message | None) -> Json:
        """The result that the peer gave a flow; an error ends the flow."""
        answer = document(answer)
        if "error" in answer:
            raise Fault.of(self.error_inward(answer["error"]))
        return answer.get("result")

    def start(self, flow: Flow) -> None:
        """Start a flow that answers no call."""
        self._carry_on(RunningFlow(flow), None)

    def new_id(self, kind: str) -> str:
        """An id for something that one side gave none."""
        self._count += 1
        return f"{self.name}-{kind}-{self._count}"

    # Calls

    def _take(self, message: Message, from_peer: bool) -> None:
        method = message.get("method")
        if "id" in message and type(message["id"]) not in (int, str):
            self._send(not from_peer, message)  # whoever gets it will say what is wrong with it
        elif not isinstance(method, str):
            self._answer(message, from_peer)
        elif "id" in message:
            self._call(message, method, from_peer)
        elif method == "$/cancel_request":
            self._cancel(message, from_peer)
        else:
            notes = self._noted(message, method, from_peer)  # first, since the flow may have sent something
            (self._to_us if from_peer else self._to_peer).extend(notes)

    def _noted(self, message: Message, method: str, from_peer: bool) -> list[Message]:
        params = message.get("params")
        try:
            notes = self.note_inward(method, params) if from_peer else self.note_outward(method, params)
        except UNTOLD:
            return [message]  # whoever gets it will say what is wrong with it
        if len(notes) == 1:
            name, told = notes[0]
            return [{"jsonrpc": "2.0", "method": name, "params": told}]
        return [{"jsonrpc": "2.0", "method": name, "params": told} for name, told in notes]

    def _call(self, message: Message, method: str, from_peer: bool) -> None:
        name, call = (self._theirs if from_peer else self._ours).get(method, (method, None))
        id, params = message["id"], message.get("params")
        if call is None:
            self._send(not from_peer, message)
            return
        if len(self._pending[from_peer]) + len(self._calls) >= MAX_CALLS:
            self._fail(from_peer, id, {"code": -32001, "message": "Too many requests in flight"})
        elif flow := (call.inward if from_peer else call.outward):
            running = RunningFlow(self._flow(flow, params), from_peer, id, is_call=True)
            self._calls.add(running)
            self._carry_on(running, None)
        else:
            self._translate_call(id, method, name, call, params, from_peer)

    def _translate_call(
        self, id: Json, method: str, name: str, call: MethodRow, params: Json, from_peer: bool
    ) -> None:
        try:
            shaped = call.params.inward(params, self) if from_peer else call.params.outward(params, self)
        except Fault as fault:
            self._fail(from_peer, id, fault.error)
        except MALFORMED:
            self._fail(from_peer, id, _unreadable(method))
        else:
            opened = _Open(call, id, *((name, shaped) if from_peer else (method, params)))
            said = self._free_id(id, from_peer)
            self._pending[from_peer][said] = opened
            self._send(not from_peer, {"id": said, "method": name, "params": shaped})

    def _free_id(self, id: Json, from_peer: bool) -> Json:
        """The id with which a call is passed on: its own, unless that is taken or looks like one of ours."""
        if id not in self._pending[from_peer] and not (isinstance(id, str) and id.startswith(self._prefix)):
            return id
        self._count += 1
        return f"{self._prefix}{self._count}"

    def _answer(self, message: Message, from_peer: bool) -> None:
        id = message.get("id")
        if running := self._asking.pop((from_peer, id), None):
            self._carry_on(running, message)
        elif call := self._pending[not from_peer].pop(id, None):
            self._send(not from_peer, {"id": call.id, **self._answered(call, message, from_peer)})
        elif not (isinstance(id, str) and id.startswith(self._prefix)):  # a late answer to a flow is dropped
            self._send(not from_peer, message)

    def _answered(self, call: _Open, message: Message, from_peer: bool) -> Message:
        if "error" in message:
            return {"error": (self.error_inward if from_peer else self.error_outward)(message["error"])}
        result, shape = message.get("result"), call.call.result
        try:
            shaped = shape.inward(result, self) if from_peer else shape.outward(result, self)
            self.passed(call.method, call.params, shaped if from_peer else result)
            return {"result": shaped}
        except Fault as fault:
            return {"error": fault.error if from_peer else self.error_outward(fault.error)}
        except MALFORMED:
            return {"error": _failure(f"the answer to {call.method} cannot be understood")}

    def _cancel(self, message: Message, from_peer: bool) -> None:
        running = self._to_cancel(message, from_peer)
        if running is None:
            self._send(not from_peer, message)
        elif running.asked:
            to_peer, asked = running.asked
            self._send(to_peer, {"method": "$/cancel_request", "params": {"requestId": asked}})

    def _to_cancel(self, message: Message, from_peer: bool) -> RunningFlow | None:
        """The cancelled call, if a flow is to answer it."""
        params = message.get("params")
        id = params.get("requestId") if isinstance(params, dict) else None
        if type(id) not in (int, str):
            return None
        return next((call for call in self._calls if (call.from_peer, call.id) == (from_peer, id)), None)

    # Flows

    def _flow(self, name: str, params: Json) -> Flow:
        """The flow of this name; params that are not an object fail it at its start."""
        answer: Json = yield from getattr(self, name)(document({} if params is None else params))
        return answer

    def _carry_on(self, running: RunningFlow, value: Message | None) -> None:
        """Run a flow until it waits or is done."""
        running.asked = None
        try:
            while True:
                step, value = running.flow.send(value), None
                match step:
                    case Tell(message, to_peer):
                        self._send(to_peer, message)
                    case StartFlow(flow):
                        self._carry_on(RunningFlow(flow), None)
                    case Ask():
                        self._ask(running, step)
                        return
                    case Pause(seconds):
                        self._sleep(running, seconds, None)
                        return
        except StopIteration as done:
            self._finish(running, {"result": done.value})
        except Fault as fault:
            self._finish(running, {"error": fault.error})
        except MALFORMED:
            self._finish(running, {"error": _unreadable("the request")})

    def _ask(self, running: RunningFlow, step: Ask) -> None:
        self._count += 1
        running.asked = key = (step.to_peer, f"{self._prefix}{self._count}")
        self._asking[key] = running
        self._send(step.to_peer, {"id": key[1], "method": step.method, "params": step.params})
        if step.timeout is not None:
            self._sleep(running, step.timeout, key)

    def _sleep(self, running: RunningFlow, seconds: float, asked: tuple[bool, str] | None) -> None:
        self._count += 1
        self._sleeping[self._count] = (running, asked)
        self._wakes.append((seconds, self._count))

    def _finish(self, running: RunningFlow, outcome: Message) -> None:
        if not running.is_call:
            return
        self._calls.remove(running)
        if "error" in outcome:
            self._fail(running.from_peer, running.id, outcome["error"])
        else:
            self._send(running.from_peer, {"id": running.id, **outcome})

    def _fail(self, to_peer: bool, id: Json, error: Json) -> None:
        """Answer a call with an error of version 1."""
        self._send(to_peer, {"id": id, "error": self.error_outward(error) if to_peer else error})

    def _send(self, to_peer: bool, message: Message) -> None:
        (self._to_peer if to_peer else self._to_us).append({"jsonrpc": "2.0", **message})

    def _outbox(self) -> Translation:
        """All messages to send, directed as for a message of the peer."""
        out = Translation(self._to_us, self._to_peer, self._wakes)
        self._to_us, self._to_peer, self._wakes = [], [], []
        return out

    @property
    def _prefix(self) -> str:
        return f"dragoman:{self.name}:{self.peer}:"


def _failure(why: str) -> Message:
    return {"code": -32603, "message": why}


def _unreadable(what: str) -> Message:
    return {"code": -32602, "message": f"Invalid params: {what} has the wrong shape"}
