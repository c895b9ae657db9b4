"""Adapts updates to one client's capabilities.

A client whose introduction the agent got understands all updates.  Another client at the same session may lack some
capabilities.  Most updates suit every client, which a search in their bytes shows.
"""

import re

import msgspec
from msgspec import Raw

from ... import schema as s
from ...foundation.documents import Json
from ...roles import offered
from ..log.records import changed, members, optional, raw, text

# Kinds of updates, and the capability that a client needs for them.
NEEDED = {
    "notice": "session.notices",
    "compaction_update": "session.compaction",
    "compaction_summary_chunk": "session.compaction",
    "plan_update": "plan",
    "plan_removed": "plan",
    "subagent_update": "subagents",
    "session_message": "subagents",
    "session_message_chunk": "subagents",
}
NAME = "sessionUpdate"
KIND, TALK = b'"sessionUpdate":"', (b'agent_message_chunk"', b'agent_thought_chunk"', b'user_message_chunk"')
SWITCHES = "session.config_options.boolean"
NO_PLAN = raw({"sessionUpdate": "plan", "entries": []})


class Fit:
    """The capabilities of a client; `has_terminals` if it can show the terminals that its agent uses."""

    def __init__(self, offers: s.ClientCapabilities, *, has_terminals: bool) -> None:
        self._offers = offers
        self._lacks = {kind for kind, needed in NEEDED.items() if not offered(offers, needed)}
        words = set(self._lacks)
        self._has_switches, self._has_terminals = offered(offers, SWITCHES), has_terminals
        words |= set() if self._has_switches else {"config_option_update"}
        words |= set() if self._has_terminals else {"terminal"}
        self._suspicious = re.compile(b'"(?:%b)"' % b"|".join(sorted(word.encode() for word in words)))
        self._takes_all = not words
        self.knows_begun = "subagent_update" not in self._lacks  # about sessions begun by agents

    def update(self, params: Raw, *, is_history: bool = False) -> Raw | None:
        """An update for this client; None if it does not get it, like an old notice."""
        data = bytes(params)
        if data.startswith(TALK, data.find(KIND) + len(KIND)):  # most updates, which suit every client
            return params
        if is_history and b'"notice"' in data and text(optional(members(params), "update"), NAME) == "notice":
            return None
        if self._takes_all or not self._suspicious.search(data):
            return params
        found = members(params)
        update = optional(found, "update")
        match kind := text(update, NAME):
            case "plan_update" | "plan_removed" if kind in self._lacks:
                shown = _plan(update)
            case _ if kind in self._lacks:
                shown = None
            case "config_option_update" if not self._has_switches:
                shown = self.options(update)
            case "tool_call" | "tool_call_update" if not self._has_terminals:
                shown = _without(update, "content", "terminal")
            case _:
                return params
        return None if shown is None else changed(found, update=shown)

    def options(self, found: dict[str, Raw]) -> Raw:
        """An object with the session's options, reduced to those that this client can show."""
        return raw(found) if self._has_switches else _without(found, "configOptions", "boolean")

    def hears(self, method: str) -> bool:
        """Whether this client understands a notification."""
        return method != "elicitation/complete" or offered(self._offers, "elicitation.url")

    def takes(self, method: str, params: Raw) -> bool:
        """Whether this client answers a request."""
        if method != "elicitation/create":
            return True
        mode = "url" if optional({"params": params}, "params").get("mode") == Raw(b'"url"') else "form"
        return offered(self._offers, f"elicitation.{mode}")


def _without(found: dict[str, Raw], name: str, kind: str) -> Raw:
    """An object whose list `name` has no elements of one type."""
    try:
        listed: list[Json] = msgspec.json.decode(found.get(name, b"null"))
        kept = [each for each in listed if not (isinstance(each, dict) and each.get("type") == kind)]
    except (msgspec.DecodeError, TypeError):  # it has none
        return raw(found)
    return raw(found) if len(kept) == len(listed) else raw({**found, name: kept})


def _plan(update: dict[str, Raw]) -> Raw | None:
    """A named plan as the only plan of an older client; None if it cannot be expressed."""
    if text(update, NAME) == "plan_removed":
        return NO_PLAN
    entries = optional(update, "plan").get("entries")
    return None if entries is None else raw({"sessionUpdate": "plan", "entries": entries})
