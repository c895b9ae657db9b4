"""Terminals of D3: the client pushes a command's output, and no message names the session."""

from collections import deque

from ...foundation.documents import Document, Json, document, number, string
from ..engine.flows import Ask, Fault, Flow, Pause, StartFlow, Steps
from ..engine.shapes import SIGNALS, Fields, NamedValues, carried, carry, command_line, exit_code, meta_of
from ..engine.translator import Peer, Remembered, Surroundings
from .updates import DraftUpdates

SOON, LATE = 0.05, 1.0  # seconds between two polls of a terminal: while it prints, and while it does not
# bytes kept of the output that a client pushes: by default, and at most
ROOM, MOST_ROOM = 1024 * 1024, 16 * 1024 * 1024
VIEW = 2 * 1024 * 1024  # bytes of output that one poll returns; encoded as JSON they still fit in a frame
PIECE = 4096  # bytes; smaller pushes are joined
DEADLINE = 30.0  # seconds for the requests that we make ourselves
OVERLAP = 256  # characters by which the old end of an output is found in the new output
MOST = 256  # terminals remembered
SHOWN = 16 * 1024  # characters kept of a terminal that was released, to be shown
ENV = NamedValues("repeated names")


class DraftTerminal:
    """One terminal: its command, and the end of its output."""

    def __init__(
        self, session_id: Json = "", command: str = "", limit: int = ROOM, *, is_lent: bool = False
    ) -> None:
        self.session_id, self.command, self.limit = session_id, command, limit
        self.is_lent, self.is_named = is_lent, False  # our host pushes its output; the agent knows its id
        self.errors = ""  # the end of stderr, where it is told apart
        self.is_truncated = False
        self.is_released = False
        self.is_watched = False
        self.exit: Document | None = None
        # the output that was pushed, or that the last poll returned, and its bytes
        self._pieces: deque[tuple[str, int]] = deque()
        self._size = 0

    @property
    def output(self) -> str:
        """The end of the output, at most `limit` bytes, beginning with a whole character."""
        text = "".join(piece for piece, _ in self._pieces)
        if self._size <= self.limit:
            return text
        encoded = text.encode(errors="replace")
        return encoded[len(encoded) - self.limit :].decode(errors="ignore")

    @output.setter
    def output(self, text: str) -> None:
        self._pieces.clear()
        self._size = 0
        self.add(text)

    def add(self, data: str, stream: Json = "stdout") -> None:
        """Keep more output; above the limit, the beginning is dropped."""
        if stream == "stderr":
            self.errors = (self.errors + data)[-SHOWN:]
        size = len(data.encode(errors="replace"))
        self._size += size
        if self._pieces and self._pieces[-1][1] + size <= PIECE:
            last, before = self._pieces.pop()
            data, size = last + data, before + size
        self._pieces.append((data, size))
        self.is_truncated = self.is_truncated or self._size > self.limit
        while self._size - self._pieces[0][1] >= self.limit:
            self._size -= self._pieces.popleft()[1]

    def release(self) -> None:
        self.is_released = True
        self.output = self.output[-SHOWN:]


class DraftTerminals(DraftUpdates):
    """The part of the translator that terminals go through."""

    def __init__(self, peer: Peer, surroundings: Surroundings | None = None) -> None:
        super().__init__(peer, surroundings)
        self.terminals: dict[Json, DraftTerminal] = Remembered(MOST)
        self.early: dict[Json, list[Json]] = Remembered(
            MOST
        )  # output of terminals whose ids the agent does not know yet
        self.creating = 0  # terminals being requested from a host
        self.most_terminals: int | None = None  # how many a client of the dialect runs at once

    def session_for(self, path: Json) -> Json:
        """The session of a request that names none."""
        id = self.sessions.owning(path if isinstance(path, str) else "")
        if id is None:
            raise Fault(-32602, "Invalid params: no session is open that this request could belong to")
        return id

    def absolute(self, path: str, session_id: Json) -> str:
        """A path in the form of version 1: a relative one is joined to the session's directory."""
        if path.startswith("/") or path[1:2] == ":" or not self.sessions.cwd(session_id):
            return path
        return f"{self.sessions.cwd(session_id).rstrip('/')}/{path}"

    def shown_terminal(self, id: Json) -> Document:
        if (terminal := self.terminals.get(id)) is None:
            return {}
        shown: Document = {"command": terminal.command, "stdout": terminal.output, "stderr": terminal.errors}
        return shown if terminal.exit is None else {**shown, "exitCode": exit_code(terminal.exit)}

    # Additional methods of our own hosts

    def lends(self, method: str) -> bool:
        raise NotImplementedError

    def create_at_host(self, params: Document, session_id: Json) -> Flow:
        raise NotImplementedError

    def wait_at_host(self, params: Document) -> Flow:
        raise NotImplementedError

    def kill_at_host(self, params: Document) -> Flow:
        raise NotImplementedError

    # An agent of the dialect uses our terminals

    def create_for_agent(self, params: Document) -> Flow:
        """Run a command for an agent, push its output to the agent, and kill it at its timeout."""
        session_id = params.get("sessionId") or self.session_for(params.get("cwd"))
        if self.lends("terminal/create"):
            return (yield from self.create_at_host(params, session_id))
        said = CREATE.inward(params, self)
        said["sessionId"] = session_id
        said["outputByteLimit"] = VIEW
        if isinstance(cwd := said.get("cwd"), str):
            said["cwd"] = self.absolute(cwd, session_id)
        result = document(self.told_by_us((yield Ask("terminal/create", said))))
        id = result["terminalId"]
        self.terminals[id] = DraftTerminal(session_id, command_line(said), MOST_ROOM)
        yield StartFlow(self._push(id))
        if isinstance(timeout := params.get("timeout"), int | float):
            yield StartFlow(self._kill_after(id, timeout / 1000))
        return result

    def _push(self, id: Json) -> Steps[None]:
        """Poll a terminal until its command has ended, and send the agent the new output."""
        terminal, pause = self.terminals[id], SOON
        while not terminal.is_released and terminal.exit is None:
            yield Pause(pause)
            told = yield from self._push_once(id)
            pause = SOON if told else min(pause * 2, LATE)

    def _push_once(self, id: Json) -> Steps[bool]:
        terminal = self.terminals[id]
        if terminal.is_released:
            return False
        seen = {"sessionId": terminal.session_id, "terminalId": id}
        answer = yield Ask("terminal/output", seen, timeout=DEADLINE)
        if answer is None:
            return False
        if "error" in answer:
            terminal.is_released = True
            return False
        result = document(answer["result"])
        printed = string(result["output"])
        data, is_whole = _news(terminal.output, printed)
        if not is_whole:
            self.lose("fast output")
        terminal.output = printed
        if status := result.get("exitStatus"):
            terminal.exit = document(status)
        if data:
            # The answer does not matter, so an agent that does not answer delays nothing.
            params = {"terminalId": id, "data": data, "stream": "stdout"}
            yield StartFlow(self.tell_peer("terminal/output", params))
        return bool(data)

    def tell_peer(self, method: str, params: Json) -> Steps[None]:
        yield Ask(method, params, to_peer=True, timeout=DEADLINE)

    def _kill_after(self, id: Json, seconds: float) -> Steps[None]:
        yield Pause(seconds)
        terminal = self.terminals.get(id)
        if terminal and not terminal.is_released and terminal.exit is None:
            about = {"sessionId": terminal.session_id, "terminalId": id}
            yield Ask("terminal/kill", about, timeout=DEADLINE)

    def wait_for_agent(self, params: Document) -> Flow:
        """Wait for a command, with a timeout if there is one; all its output is pushed before the answer."""
        if self.lends("terminal/wait_for_exit"):
            return (yield from self.wait_at_host(params))
        said = self.with_session(params, "timeout")
        timeout = number(params["timeout"]) / 1000 if params.get("timeout") is not None else None
        answer = yield Ask("terminal/wait_for_exit", said, timeout=timeout)
        status = None if answer is None else document(self.told_by_us(answer))
        if params["terminalId"] in self.terminals:
            yield from self._push_once(params["terminalId"])
        if status is None:
            return {"exitCode": -1, "timedOut": True}
        return self.ended(params["terminalId"], status, timed_out=False)

    def ended(self, id: Json, status: Document, timed_out: bool) -> Document:
        """How a command ended, in the dialect's form."""
        if terminal := self.terminals.get(id):
            terminal.exit = status
        result = {"exitCode": exit_code(status), "timedOut": timed_out, **meta_of(status)}
        return result if status.get("signal") is None else {**result, "signal": status["signal"]}

    def kill_for_agent(self, params: Document) -> Flow:
        if self.lends("terminal/kill"):
            return (yield from self.kill_at_host(params))
        if params.get("signal") not in (None, "SIGTERM") or params.get("force"):
            self.lose("choice of signal")
        said = self.with_session(params, "signal", "force")
        kept: Document = {name: params[name] for name in ("signal", "force") if name in params}
        asked = Ask("terminal/kill", carry(said, kept, self) if kept else said)
        return {"killed": True, **meta_of(self.told_by_us((yield asked)))}

    def release_for_agent(self, params: Document) -> Flow:
        if terminal := self.terminals.get(params["terminalId"]):
            terminal.release()
        result = self.told_by_us((yield Ask("terminal/release", self.with_session(params))))
        return {"released": True, **meta_of(result)}

    def with_session(self, params: Document, *left_out: str) -> Document:
        said = {name: member for name, member in params.items() if name not in left_out}
        if "sessionId" not in said:
            terminal = self.terminals.get(params["terminalId"])
            said["sessionId"] = terminal.session_id if terminal else self.session_for("")
        return said

    # We use the terminals of a client of the dialect

    def create_at_client(self, params: Document) -> Flow:
        limit = params.get("outputByteLimit")
        self._check_room()
        asked = Ask("terminal/create", CREATE.outward(params, self), to_peer=True)
        result = document(self.told_by_peer((yield asked)))
        room = ROOM if limit is None else min(int(number(limit)), MOST_ROOM)
        terminal = DraftTerminal(params["sessionId"], command_line(params), room)
        early = self.terminals.get(result["terminalId"])  # its output may arrive before its id
        self.terminals[result["terminalId"]] = terminal
        if early:
            terminal.add(early.output)
            terminal.errors = early.errors
        return {"terminalId": result["terminalId"], **meta_of(result)}

    def _check_room(self) -> None:
        """Refuse a terminal above the number that the client runs at once."""
        run = [
            terminal for terminal in self.terminals.values() if terminal.exit is None and not terminal.is_released
        ]
        if self.most_terminals is not None and len(run) >= self.most_terminals:
            why = f"the client runs {self.most_terminals} terminals at once; release one first"
            raise Fault(-32001, why, {"kind": "rate_limited"})

    def take_output(self, params: Document) -> Flow:
        """Keep output that a client pushes."""
        id = params["terminalId"]
        terminal = self.terminals.get(id) or DraftTerminal()
        self.terminals[id] = terminal
        terminal.add(str(params["data"]), params.get("stream"))
        if params.get("stream") == "stderr":
            self.lose("output streams")
        return {"received": True}
        yield  # an empty yield makes this a flow, though it waits for nothing

    def output_at_client(self, params: Document) -> Flow:
        """Answer an agent's request for the output with what was pushed."""
        if (terminal := self.terminals.get(params["terminalId"])) is None:
            raise Fault(-32002, "Resource not found", {"terminalId": params["terminalId"]})
        if terminal.exit is None and not terminal.is_watched:
            terminal.is_watched = True
            yield StartFlow(self._watch(params["terminalId"]))
        result: Document = {"output": terminal.output, "truncated": terminal.is_truncated}
        return result if terminal.exit is None else {**result, "exitStatus": terminal.exit}

    def _watch(self, id: Json) -> Steps[None]:
        """Wait for a command's end, so that an agent that polls sees it."""
        answer = yield Ask("terminal/wait_for_exit", {"terminalId": id}, to_peer=True)
        terminal = self.terminals.get(id)
        told = document(answer)
        if terminal and "result" in told and not document(told["result"]).get("timedOut"):
            terminal.exit = _status(document(told["result"]))

    def wait_at_client(self, params: Document) -> Flow:
        said = {"terminalId": params["terminalId"], **meta_of(params)}
        result = document(self.told_by_peer((yield Ask("terminal/wait_for_exit", said, to_peer=True))))
        status = _status(result)
        if terminal := self.terminals.get(params["terminalId"]):
            terminal.exit = status
        return {**status, **meta_of(result)}

    def kill_at_client(self, params: Document) -> Flow:
        return (yield from self._ask_client("terminal/kill", params))

    def release_at_client(self, params: Document) -> Flow:
        if terminal := self.terminals.get(params["terminalId"]):
            terminal.release()
        return (yield from self._ask_client("terminal/release", params))

    def _ask_client(self, method: str, params: Document) -> Flow:
        params, kept = carried(params, self)
        said = {"terminalId": params["terminalId"], **meta_of(params), **kept}
        return meta_of(self.told_by_peer((yield Ask(method, said, to_peer=True))))


CREATE = Fields(shapes={"env": ENV}, carried=["timeout"], lost={"outputByteLimit": None, "sessionId": None})


def _status(result: Document) -> Document:
    """How a command ended; for a killed one, the exit code only repeats the signal that we know."""
    code, signal = result.get("exitCode"), result.get("signal")
    is_made_up = isinstance(signal, str) and signal in SIGNALS and code == exit_code({"signal": signal})
    return {"exitCode": None if is_made_up else code, "signal": signal}


def _news(old: str, new: str) -> tuple[str, bool]:
    """The new part of an output, and whether it is complete: the beginning of the output may have been cut off."""
    if new.startswith(old):
        return new[len(old) :], True
    at = new.rfind(old[-OVERLAP:])
    return (new, False) if at < 0 else (new[at + len(old[-OVERLAP:]) :], True)
