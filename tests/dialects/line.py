"""Two translators back to back, by hand: a client of one dialect at one end, an agent of another at the other."""

from collections import deque
from itertools import count

from dragoman.dialects import translator


class Straight:
    """Nobody translates here."""

    report: dict = {}

    def __init__(self):
        self.translated = None

    class _Through:
        def __init__(self, message):
            self.onward, self.back, self.wakes = [message], [], []

    def inward(self, message):
        return self._Through(message)

    outward = inward


class Line:
    """What either end says arrives at the other, translated into version 1 and out of it again."""

    def __init__(self, client="v1", agent="v1"):
        self.edges = {
            "client": translator(client, "client") or Straight(),
            "agent": translator(agent, "agent") or Straight(),
        }
        self.at = {"client": deque(), "agent": deque()}
        self.wakes = []  # (edge, key)
        self.canonical = []  # all that passed in the middle
        self._ids = count(1)

    def say(self, sender, message):
        """Have one end send a message; what follows from it arrives in `at`."""
        self._inward(sender, {"jsonrpc": "2.0", **message})

    def _inward(self, edge, message):
        self._deal(edge, self.edges[edge].inward(message))

    def _outward(self, edge, message):
        self.canonical.append(message)
        translation = self.edges[edge].outward(message)
        self.wakes += [(edge, key) for _, key in translation.wakes]
        self.at[edge].extend(translation.onward)
        for back in translation.back:
            self._outward(other(edge), back)

    def _deal(self, edge, translation):
        self.wakes += [(edge, key) for _, key in translation.wakes]
        self.at[edge].extend(translation.back)
        for onward in translation.onward:
            self._outward(other(edge), onward)

    def wake(self):
        """The time has come for everything that waits for it."""
        wakes, self.wakes = self.wakes, []
        for edge, key in wakes:
            self._deal(edge, self.edges[edge].timer_due(key))

    def take(self, end):
        """The next message that has arrived."""
        return self.at[end].popleft()

    def ask(self, sender, method, params):
        """Have one end ask; gives what arrives at the other."""
        self.say(sender, {"id": next(self._ids), "method": method, "params": params})
        return self.take(other(sender))

    def answer(self, end, request, result):
        """Have one end answer a request; gives what arrives where it was asked."""
        self.say(end, {"id": request["id"], "result": result})
        return self.take(other(end))

    def fail(self, end, request, error):
        self.say(end, {"id": request["id"], "error": error})
        return self.take(other(end))

    def note(self, sender, method, params):
        """Have one end send a notification; gives all that arrives at the other."""
        self.say(sender, {"method": method, "params": params})
        arrived = [message["params"] for message in self.at[other(sender)]]
        self.at[other(sender)].clear()
        return arrived

    @property
    def lost(self):
        """What either translator could not say."""
        return {row for edge in self.edges.values() for row in edge.report}


def other(end):
    return "agent" if end == "client" else "client"


CLIENT_CALLS = {
    "initialize",
    "authenticate",
    "logout",
    "session/new",
    "session/load",
    "session/prompt",
    "session/cancel",
    "session/set_mode",
    "session/set_model",
    "session/set_config_option",
}


def caller_of(method):
    return "client" if method in CLIENT_CALLS else "agent"
