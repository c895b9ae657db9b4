"""Methods that an agent of D3 can use with a client that offers more than version 1 does.

Our own hosts declare such methods (`_dragoman/…`) in `initialize`.  They make the following work as the dialect
specifies: encodings, directories that must not be created, signals, process ids, stderr apart from stdout, binary
files, listings and watches.
"""

from ...foundation.documents import Document, Json, document, string
from ..engine.flows import Ask, Flow, Pause, StartFlow, Steps
from ..engine.shapes import Pair, command_line, meta_of
from .sessions import DraftSessions
from .terminals import CREATE, DraftTerminal

OURS = "_dragoman/"
FILES = ("read_binary_file", "write_binary_file", "list_directory", "create_directory", "watch", "unwatch")


def lent_methods(offers: Json) -> list[str]:
    """The `_dragoman/…` methods that a client offers."""
    meta = offers.get("_meta") if isinstance(offers, dict) else None
    ours = meta.get("dragoman") if isinstance(meta, dict) else None
    methods = ours.get("methods") if isinstance(ours, dict) else None
    return [name for name in methods if isinstance(name, str)] if isinstance(methods, list) else []


def _placed(params: Document, t: "DraftLending") -> Json:
    return {**params, **t.place(params)} if "path" in params else {**params, "sessionId": t.session_for("")}


LENT = Pair(_placed, lambda params, t: {name: params[name] for name in params if name != "sessionId"})


class DraftLending(DraftSessions):
    """The part of the translator that uses the additional methods of our own hosts."""

    def lends(self, method: str) -> bool:
        return OURS + method in lent_methods(self.client_offers)

    def place(self, params: Document) -> Document:
        """The session that a file belongs to, and its path in the form of version 1."""
        session_id = params.get("sessionId") or self.session_for(params["path"])
        return {"sessionId": session_id, "path": self.absolute(string(params["path"]), session_id)}

    # Files

    def read_at_host(self, params: Document) -> Flow:
        result = self.told_by_us((yield Ask(f"{OURS}fs/read_text_file", {**params, **self.place(params)})))
        return result

    def write_at_host(self, params: Document) -> Flow:
        result = self.told_by_us((yield Ask(f"{OURS}fs/write_text_file", {**params, **self.place(params)})))
        return result

    # Terminals

    def create_at_host(self, params: Document, session_id: Json) -> Flow:
        """Run a command; the host enforces its timeout and pushes its output, stdout and stderr apart."""
        said = {**CREATE.inward(params, self), "sessionId": session_id, "push": True}
        said |= {name: params[name] for name in ("timeout",) if name in params}
        if isinstance(cwd := said.get("cwd"), str):
            said["cwd"] = self.absolute(cwd, session_id)
        self.creating += 1
        try:
            result = document(self.told_by_us((yield Ask(f"{OURS}terminal/create", said))))
        finally:
            self.creating -= 1
        words = command_line(said)
        terminal = self.terminals[result["terminalId"]] = DraftTerminal(session_id, words, is_lent=True)
        yield StartFlow(self._name_first(result["terminalId"], terminal))
        return result

    def _name_first(self, id: Json, terminal: DraftTerminal) -> Steps[None]:
        """Hold back a terminal's output until the agent knows the terminal's id."""
        yield Pause(0)
        terminal.is_named = True
        for params in self.early.pop(id, ()):
            yield StartFlow(self.tell_peer("terminal/output", params))

    def note_outward(self, method: str, params: Json) -> list[tuple[str, Json]]:
        if method == f"{OURS}fs/changed" and self.peer == "agent":
            changed = document(params)
            return [("fs/changed", {name: changed[name] for name in changed if name != "sessionId"})]
        told = document(params) if method == f"{OURS}terminal/output" and self.peer == "agent" else {}
        id = told.get("terminalId")
        if id is None or not (id in self.terminals or self.creating):  # or the terminal was not created here
            return super().note_outward(method, params)
        terminal, printed = self.terminals.get(id), string(told["text"])
        said: Document = {"terminalId": id, "data": printed, "stream": told["stream"]}
        if terminal is not None:
            terminal.add(printed, told["stream"])
        if terminal is None or not terminal.is_named:
            self.early.setdefault(id, []).append(said)
        else:
            self.start(self.tell_peer("terminal/output", said))
        return []

    def wait_at_host(self, params: Document) -> Flow:
        asked = Ask(f"{OURS}terminal/wait_for_exit", self.with_session(params))
        status = document(self.told_by_us((yield asked)))
        timed_out = status.get("timedOut") is True
        if status.get("exitCode") is None and status.get("signal") is None:
            return {"exitCode": -1, "timedOut": timed_out, **meta_of(status)}
        return self.ended(params["terminalId"], status, timed_out)

    def kill_at_host(self, params: Document) -> Flow:
        result = self.told_by_us((yield Ask(f"{OURS}terminal/kill", self.with_session(params))))
        return result
