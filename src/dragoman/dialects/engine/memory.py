"""The facts that a translator remembers: one side states them once, the other expects them each time."""

from ...foundation.documents import Document, Json, document, documents, documents_in, elements, members, string
from .flows import Ask, Steps
from .translator import Peer, Remembered, Surroundings, Translator

MAX_PAGES = 100
LONGEST_SUBJECT = 4096  # characters kept of the subject of a tool call


class SessionMemory:
    """The facts of one session, from the messages that have passed."""

    def __init__(self, cwd: str = "") -> None:
        self.cwd = cwd
        self.mode: Json = None
        self.modes: list[Document] = []
        self.options: list[Document] = []  # config options, as version 1 has them
        self.prompts = 0  # whether a turn is in progress
        self.is_cancelled = False
        self.approves = False  # its client does not want to be asked for permission
        self.first_mode: Json = None
        self.has_made_up_model = False  # its models came in a list, not as a config option

    def opened(self, result: Document) -> None:
        """Note the modes and options with which a session was opened."""
        modes, options = result.get("modes"), result.get("configOptions")
        if isinstance(modes, dict):
            self.mode, self.modes = modes.get("currentModeId"), documents_in(modes.get("availableModes"))
            self.first_mode = self.first_mode or self.mode
        if isinstance(options, list):
            self.options = documents_in(options)

    def values(self) -> Document:
        """The values of the config options by their ids."""
        named = ((option.get("id"), option.get("currentValue")) for option in self.options)
        return {id: value for id, value in named if isinstance(id, str)}

    def set_value(self, id: str, value: Json) -> None:
        """Note an option's new value; for an unknown option, make one up that has this value as its only choice."""
        self.options = [
            {**option, "currentValue": value} if option.get("id") == id else option for option in self.options
        ]
        if id not in self.values():
            self.options.append(made_up_option(id, value))


class SessionTable:
    """All sessions of a connection."""

    def __init__(self) -> None:
        self._known: dict[Json, SessionMemory] = Remembered()

    def __getitem__(self, id: Json) -> SessionMemory:
        return self._known.get(id) or SessionMemory()

    def open(self, id: Json, cwd: str) -> SessionMemory:
        known = self._known[id] = self._known.get(id) or SessionMemory(cwd)
        known.cwd = cwd or known.cwd
        return known

    def cwd(self, id: Json) -> str:
        return self[id].cwd if isinstance(id, str) else ""

    def owning(self, path: str) -> Json:
        """The session of a file: first one with a turn in progress, then the deepest directory, then the newest."""
        best, rank = None, (-1, -1, -1)
        for at, (id, session) in enumerate(self._known.items()):
            inside = path == session.cwd or path.startswith(session.cwd.rstrip("/") + "/")
            found = (min(session.prompts, 1), len(session.cwd) if inside else -1, at)
            if found > rank:
                best, rank = id, found
        return best


class ToolCalls:
    """The known facts of each tool call: title, kind, subject."""

    def __init__(self) -> None:
        self._known: dict[Json, Document] = Remembered()

    def note(self, update: Document) -> Document:
        """Note the fields of an update of a tool call; returns all that is known of the call."""
        known = self._known.get(update["toolCallId"], {})
        for name in ("title", "kind", "name", "status"):
            if isinstance(said := update.get(name), str):
                known[name] = said[:LONGEST_SUBJECT]
        if update.get("content"):
            known["content"] = True
        if subject := subject_of(update):
            known["subject"] = subject[:LONGEST_SUBJECT]
        self._known[update["toolCallId"]] = known
        return known

    def known(self, id: Json) -> Document:
        return self._known.get(id, {}) if isinstance(id, str) else {}


def subject_of(update: Document) -> str:
    """The file or the command that a tool call is about, if it says so."""
    for content in elements(update.get("content") or []):
        if isinstance(content, dict) and content.get("type") == "diff":
            return str(content.get("path") or "")
    for location in elements(update.get("locations") or []):
        return str(document(location).get("path") or "")
    given = update.get("rawInput")
    if isinstance(given, dict):
        for name in ("command", "path", "file_path", "url", "query"):
            if isinstance(given.get(name), str):
                return str(given[name])
    return ""


def made_up_option(id: str, value: Json) -> Document:
    """A config option made from its id and value, when nothing else is known."""
    if isinstance(value, bool):
        return {"id": id, "name": id, "type": "boolean", "currentValue": value}
    return {
        "id": id,
        "name": id,
        "type": "select",
        "currentValue": value,
        "options": [{"value": value, "name": value}],
    }


class Remembering(Translator):
    """A translator that remembers the sessions and tool calls that pass."""

    def __init__(self, peer: Peer, surroundings: Surroundings | None = None) -> None:
        super().__init__(peer, surroundings)
        self.sessions, self.tools = SessionTable(), ToolCalls()

    def passed(self, method: str, params: Json, result: Json) -> None:
        super().passed(method, params, result)
        if method in ("session/new", "session/load", "session/resume", "session/fork"):
            asked, opened = document(params), document(result)
            id = opened.get("sessionId") or asked.get("sessionId")
            self.sessions.open(id, string(asked.get("cwd") or "")).opened(opened)
        elif method == "session/set_mode":
            asked = document(params)
            self.sessions[asked["sessionId"]].mode = asked["modeId"]
        elif method == "session/set_config_option":
            self.sessions[document(params)["sessionId"]].opened(document(result))

    def directory_of(self, session_id: Json) -> Steps[str]:
        """The directory of a session: as it was opened here, else as the agent lists it, else our own."""
        if cwd := self.sessions.cwd(session_id):
            return cwd
        cursor: Json = None
        can_list = members(self.agent_offers.get("sessionCapabilities")).get("list") is not None
        for _ in range(MAX_PAGES if can_list else 0):
            page = document(self.told_by_us((yield Ask("session/list", {"cursor": cursor} if cursor else {}))))
            for session in documents(page["sessions"]):
                if session["sessionId"] == session_id:
                    return string(session["cwd"])
            if not (cursor := page.get("nextCursor")):
                break
        return self.surroundings.directory
