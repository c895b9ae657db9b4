"""What an agent of D3 may ask of a client that can do more than version 1 has words for.

Our own hosts name such methods (`_dragoman/…`) when they greet.  With them encodings, directories that are not to
be made, signals, process ids, stderr by itself, binary files, listings and watches are what the dialect says.
"""

from typing import Any

from ..engine.flows import Ask, Flow, Pause, StartFlow
from ..engine.shapes import Pair, margin
from .sessions import DraftSessions
from .terminals import CREATE, DraftTerminal

OURS = "_dragoman/"
FILES = ("read_binary_file", "write_binary_file", "list_directory", "create_directory", "watch", "unwatch")


def lent_methods(offers: Any) -> list[str]:
    """The methods of our own that a client lends."""
    meta = offers.get("_meta") if isinstance(offers, dict) else None
    ours = meta.get("dragoman") if isinstance(meta, dict) else None
    methods = ours.get("methods") if isinstance(ours, dict) else None
    return [name for name in methods if isinstance(name, str)] if isinstance(methods, list) else []


def _placed(params: Any, t: "DraftLending") -> Any:
    return {**params, **t.place(params)} if "path" in params else {**params, "sessionId": t.session_for("")}


LENT = Pair(_placed, lambda params, t: {name: params[name] for name in params if name != "sessionId"})


class DraftLending(DraftSessions):
    """The part of the translator that speaks to a host of our own."""

    def lends(self, method: str) -> bool:
        return OURS + method in lent_methods(self.client_offers)

    def place(self, params: Any) -> dict[str, str]:
        """The session a file belongs to, and its path as version 1 wants it."""
        session_id = params.get("sessionId") or self.session_for(params["path"])
        return {"sessionId": session_id, "path": self.absolute(params["path"], session_id)}

    # Files

    def read_at_host(self, params: Any) -> Flow:
        result = self.told_by_us((yield Ask(f"{OURS}fs/read_text_file", {**params, **self.place(params)})))
        return result

    def write_at_host(self, params: Any) -> Flow:
        result = self.told_by_us((yield Ask(f"{OURS}fs/write_text_file", {**params, **self.place(params)})))
        return result

    # Terminals

    def create_at_host(self, params: Any, session_id: str) -> Flow:
        """Run a command; the host ends it in time, and pushes what it prints, each stream by itself."""
        said = {**CREATE.inward(params, self), "sessionId": session_id, "push": True}
        said |= {name: params[name] for name in ("timeout",) if name in params}
        if isinstance(said.get("cwd"), str):
            said["cwd"] = self.absolute(said["cwd"], session_id)
        self.creating += 1
        try:
            result = self.told_by_us((yield Ask(f"{OURS}terminal/create", said)))
        finally:
            self.creating -= 1
        words = " ".join([said["command"], *(said.get("args") or ())])
        terminal = self.terminals[result["terminalId"]] = DraftTerminal(session_id, words, is_lent=True)
        yield StartFlow(self._name_first(result["terminalId"], terminal))
        return result

    def _name_first(self, id: str, terminal: DraftTerminal) -> Flow:
        """An agent is told of a terminal's output once it has been told the terminal's name."""
        yield Pause(0)
        terminal.is_named = True
        for params in self.early.pop(id, ()):
            yield StartFlow(self.tell_peer("terminal/output", params))

    def note_outward(self, method: str, params: Any) -> list[tuple[str, Any]]:
        if method == f"{OURS}fs/changed" and self.peer == "agent":
            return [("fs/changed", {name: params[name] for name in params if name != "sessionId"})]
        id = params.get("terminalId") if method == f"{OURS}terminal/output" and self.peer == "agent" else None
        if id is None or not (id in self.terminals or self.creating):  # or it is of one that was not made here
            return super().note_outward(method, params)
        terminal, said = (
            self.terminals.get(id),
            {"terminalId": id, "data": params["text"], "stream": params["stream"]},
        )
        if terminal is not None:
            terminal.add(params["text"], params["stream"])
        if terminal is None or not terminal.is_named:
            self.early.setdefault(id, []).append(said)
        else:
            self.start(self.tell_peer("terminal/output", said))
        return []

    def wait_at_host(self, params: Any) -> Flow:
        asked = Ask(f"{OURS}terminal/wait_for_exit", self.with_session(params))
        status = self.told_by_us((yield asked))
        timed_out = status.get("timedOut") is True
        if status.get("exitCode") is None and status.get("signal") is None:
            return {"exitCode": -1, "timedOut": timed_out, **margin(status)}
        return self.ended(params["terminalId"], status, timed_out)

    def kill_at_host(self, params: Any) -> Flow:
        result = self.told_by_us((yield Ask(f"{OURS}terminal/kill", self.with_session(params))))
        return result
