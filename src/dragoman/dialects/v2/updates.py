"""Session updates, from version 2 to version 1 and back, with one function for each variant.

An update that version 1 lacks travels in the `_meta` of a `session_info_update` that changes nothing.  Where one
update becomes several, the first carries the whole.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import UNSET

from ...foundation.documents import Json, document, documents, elements, string
from ..engine.flows import Message
from ..engine.pieces import PieceParams, written
from ..engine.shapes import carried, carry
from ..engine.translator import Translator
from .handshake import offered
from .options import changes_inward, options_outward
from .session_state import MADE_UP_ID, OURS, PROMPT_ID, USER, MessageSoFar, SessionState, ShownTerminal, flat
from .shapes import (
    BLOCK,
    COMMANDS,
    CONTENT_ITEM,
    PLAN,
    PLAN_CONTENT,
    STATE,
    diff_inward,
    keep,
    parts,
    tool_inward,
    tool_outward,
)

if TYPE_CHECKING:
    from .turns import PromptCalls

SPEAKERS = {"user": "user_message", "agent": "agent_message", "thought": "agent_thought"}

Turning = Callable[[Message, SessionState, "PromptCalls"], list[Message]]


def update_inward(update: Message, session: SessionState, t: "PromptCalls") -> list[Message]:
    """The updates of version 1 for an update of version 2."""
    turning = INWARD.get(string(update.get("sessionUpdate", "")))
    return turning(update, session, t) if turning else [update]


def update_outward(update: Message, session: SessionState, t: "PromptCalls") -> list[Message]:
    """The updates of version 2 for an update of version 1."""
    kind = string(update.get("sessionUpdate", ""))
    if "_meta" in update:
        _, kept = carried(update, t)
        if kept.get("part"):
            return []
        if "update" in kept:
            return [document(kept["update"])]
        if "appended" in kept:
            item = _contents_out(elements(update["content"])[-1:], t)[0]
            return [
                {"sessionUpdate": "tool_call_content_chunk", "toolCallId": update["toolCallId"], "content": item}
            ]
    turning = OUTWARD.get(kind)
    return turning(update, session, t) if turning else [update]


def carrier(update: Message, t: Translator) -> Message:
    """An update that changes nothing and carries one that version 1 lacks."""
    return carry({"sessionUpdate": "session_info_update"}, {"update": update}, t)


# ── messages ──────────────────────────────────────────────────────────────────────────────────────


def _chunk_in(update: Message, session: SessionState, t: Translator) -> list[Message]:
    id, content = update.get("messageId"), update["content"]
    if update["sessionUpdate"] == "user_message_chunk" and _is_echo(session, id, None):
        return []
    session.said_in(id).add(flat(content))
    heard = {**update, "content": BLOCK.inward(content, t)}
    if isinstance(id, str) and id.startswith(MADE_UP_ID):
        del heard["messageId"]
    return [heard]


def piece_in(piece: PieceParams, session: SessionState, frame: bytes) -> bytes | None:
    """As `_chunk_in`, for a piece of text."""
    chunk = piece.update
    id = chunk.message_id
    if chunk.session_update == "user_message_chunk" or id is UNSET:
        return None
    session.said_in(id).add(chunk.content.text.encode())
    if not id.startswith(MADE_UP_ID):
        return frame
    chunk.message_id = UNSET
    return written(piece)


def _message_in(update: Message, session: SessionState, t: Translator) -> list[Message]:
    """A whole message: its new content, or all of it under another id where it replaces earlier content."""
    id, given = update["messageId"], update.get("content")
    if update["sessionUpdate"] == "user_message" and _is_echo(session, id, given):
        return []
    known = session.said.get(id)
    if "content" not in update or (not given and known is None):
        return [carrier(update, t)]
    blocks = elements(given or [])
    rest = blocks if known is None else known.rest_of(blocks)
    shown_as = id
    if rest is None:
        t.lose("message replaced")
        rest, shown_as = blocks, t.new_id("message")
    said = session.said[id] = MessageSoFar()
    for block in blocks:
        said.add(flat(block))
    kind = f"{update['sessionUpdate']}_chunk"
    chunks = [{"sessionUpdate": kind, "messageId": shown_as, "content": BLOCK.inward(block, t)} for block in rest]
    if not chunks:
        return [carrier(update, t)]
    if len(chunks) == 1 and set(update) == {"sessionUpdate", "messageId", "content"} and known is None:
        return [carry(chunks[0], {"whole": True}, t)]
    return [carry(chunks[0], {"update": update}, t), *(carry(chunk, {"part": True}, t) for chunk in chunks[1:])]


def _is_echo(session: SessionState, id: Json, content: Json) -> bool:
    """Whether a user message only repeats the prompt of a turn in progress."""
    if id in session.echoes:
        return True
    for turn in session.turns:
        if turn.message_id == id or (turn.message_id is None and content in (None, turn.content)):
            turn.message_id = id
            session.echoes[id] = True
            return True
    return False


def _chunk_out(update: Message, session: SessionState, t: "PromptCalls") -> list[Message]:
    kind = string(update["sessionUpdate"])
    update, kept = carried(update, t)
    id = _message_id(kind, update.get("messageId"), session, t)
    content = BLOCK.outward(update["content"], t)
    if kept.get("whole"):
        kind, content = kind.removesuffix("_chunk"), [content]
    return [{**update, "sessionUpdate": kind, "messageId": id, "content": content}]


def piece_out(piece: PieceParams, session: SessionState, t: "PromptCalls", frame: bytes) -> bytes:
    """As `_chunk_out`, for a piece of text."""
    chunk = piece.update
    given = None if chunk.message_id is UNSET else chunk.message_id
    id = _message_id(chunk.session_update, given, session, t)
    if chunk.message_id is id:
        return frame
    chunk.message_id = id
    return written(piece)


def _message_id(kind: str, given: Json, session: SessionState, t: "PromptCalls") -> str:
    """The id of a message, which version 2 requires; consecutive chunks of one speaker are one message."""
    if isinstance(given, str):
        id = session.user_message_id(given) if kind == USER else given
    elif session.last_message[0] == kind:
        id = session.last_message[1]
    else:
        id = new_message_id(kind, session, t)
    session.last_message = (kind, id)
    return id


def new_message_id(kind: str, session: SessionState, t: "PromptCalls") -> str:
    """An id for a message that has none; in a replay it is the same, if all messages before it were counted."""
    number = session.number(kind)
    if kind == USER and not t.peer_translates:
        return f"{PROMPT_ID}{t.new_id('user') if number is None else number}"
    return OURS + t.new_id("message") if number is None else f"{MADE_UP_ID}{kind}-{number}"


# ── tool calls ────────────────────────────────────────────────────────────────────────────────────


def _tool_in(update: Message, session: SessionState, t: "PromptCalls") -> list[Message]:
    id = update["toolCallId"]
    found = tool_inward(update, t)
    is_new = id not in session.tools
    if isinstance(content := found.get("content"), list):
        found["content"] = session.tools[id] = contents_inward(content, session, t)
    elif is_new:
        session.tools[id] = []
    if not is_new:
        return [found]
    found["sessionUpdate"] = "tool_call"
    if not isinstance(found.get("title"), str):
        found["title"] = found.get("name") or id
        found = keep(found, t, **{"+": ["title"]})
    return [found]


def _chunk_of_tool_in(update: Message, session: SessionState, t: "PromptCalls") -> list[Message]:
    """One more content item; version 1 cannot add one, so it gets all items again."""
    id = update["toolCallId"]
    more = contents_inward([update["content"]], session, t)
    session.tools[id] = content = [*session.tools.get(id, ()), *more]
    said = {"sessionUpdate": "tool_call_update", "toolCallId": id, "content": content}
    if len(more) == 1 and set(update) == {"sessionUpdate", "toolCallId", "content"}:
        return [carry(said, {"appended": True}, t)]
    return [carry(said, {"update": update}, t)]


def contents_inward(items: list[Json], session: SessionState, t: "PromptCalls") -> list[Json]:
    found: list[Json] = []
    for item in items:
        match item:
            case {"type": "diff"}:
                found += diff_inward(document(item), t)
            case {"type": "terminal"} if not t.peer_translates:  # an agent of version 1 has no terminals of its own
                shown = document(item)
                terminal = session.terminals.get(shown["terminalId"]) or ShownTerminal()
                session.terminals[shown["terminalId"]] = terminal
                found += parts(shown, [terminal.content], t)
            case _:
                found.append(CONTENT_ITEM.inward(item, t))
    return found


def _contents_out(items: list[Json], t: Translator) -> list[Json]:
    return elements(tool_outward({"content": items}, t)["content"])


def _tool_out(update: Message, session: SessionState, t: Translator) -> list[Message]:
    session.last_message = ("", "")
    if update.get("title"):
        session.titles[update["toolCallId"]] = update["title"]
    return [{**tool_outward(update, t), "sessionUpdate": "tool_call_update"}]


# ── terminals of the agent ────────────────────────────────────────────────────────────────────────


def _terminal_in(update: Message, session: SessionState, t: Translator) -> list[Message]:
    id = update["terminalId"]
    terminal = session.terminals.get(id)
    if terminal is None:
        session.terminals[id] = terminal = ShownTerminal()
    if update["sessionUpdate"] == "terminal_update":
        terminal.update(update)
    else:
        terminal.add(string(update["data"]))
    return [carrier(update, t), *(_shown_again(id, terminal, session, t) if terminal.is_due() else [])]


def _shown_again(id: Json, terminal: ShownTerminal, session: SessionState, t: Translator) -> list[Message]:
    """The tool calls that contain a terminal, with its present text."""
    found = []
    for tool, content in session.tools.items():
        items = [document(carried(document(item), t)[1].get("item") or {}) for item in content]
        if any(item.get("terminalId") == id for item in items):
            content = [
                carry(terminal.content, {"item": item}, t) if item.get("terminalId") == id else shown
                for item, shown in zip(items, content, strict=True)
            ]
            session.tools[tool] = content
            said = {"sessionUpdate": "tool_call_update", "toolCallId": tool, "content": content}
            found.append(carry(said, {"part": True}, t))
    if found:
        terminal.shown = len(terminal.text)
    return found


# ── plans, options, the rest ──────────────────────────────────────────────────────────────────────


def _plan_in(update: Message, session: SessionState, t: Translator) -> list[Message]:
    plan = document(update["plan"])
    content = document(PLAN_CONTENT.inward(plan, t))
    if plan.get("planId") == PLAN:
        return [_without({**update, "sessionUpdate": "plan", "entries": content["entries"]}, "plan")]
    if offered(t.client_offers, "plan"):
        return [{**update, "plan": content}]
    if plan.get("type") != "items":
        t.lose("plan without entries")
        return [carrier(update, t)]
    return [carry({"sessionUpdate": "plan", "entries": content["entries"]}, {"update": update}, t)]


def _plan_out(update: Message, session: SessionState, t: Translator) -> list[Message]:
    session.last_message = ("", "")
    plan = PLAN_CONTENT.outward({"type": "items", "planId": PLAN, "entries": update["entries"]}, t)
    return [_without({**update, "sessionUpdate": "plan_update", "plan": plan}, "entries")]


def _plan_update_out(update: Message, session: SessionState, t: Translator) -> list[Message]:
    session.last_message = ("", "")
    return [{**update, "plan": PLAN_CONTENT.outward(update["plan"], t)}]


def _plan_removed_in(update: Message, session: SessionState, t: Translator) -> list[Message]:
    if offered(t.client_offers, "plan"):
        return [update]
    return [carry({"sessionUpdate": "plan", "entries": []}, {"update": update}, t)]


def _commands_in(update: Message, session: SessionState, t: Translator) -> list[Message]:
    return [{**update, "availableCommands": COMMANDS.inward(update["availableCommands"], t)}]


def _commands_out(update: Message, session: SessionState, t: Translator) -> list[Message]:
    return [{**update, "availableCommands": COMMANDS.outward(update["availableCommands"], t)}]


def _options_in(update: Message, session: SessionState, t: Translator) -> list[Message]:
    meta = {"_meta": update["_meta"]} if "_meta" in update else {}
    return changes_inward(session, update["configOptions"], meta, t)


def _options_out(update: Message, session: SessionState, t: Translator) -> list[Message]:
    session.options = documents(update["configOptions"])
    return [{**update, "configOptions": options_outward(session, t)}]


def _mode_out(update: Message, session: SessionState, t: Translator) -> list[Message]:
    mode = update["currentModeId"]
    session.modes = {"availableModes": [{"id": mode, "name": mode}], **(session.modes or {}), "currentModeId": mode}
    session.options = [
        {**option, "currentValue": mode} if option.get("category") == "mode" else option
        for option in session.options
    ]
    said = {**update, "sessionUpdate": "config_option_update", "configOptions": options_outward(session, t)}
    return [_without(said, "currentModeId")]


def _subagent_in(update: Message, session: SessionState, t: Translator) -> list[Message]:
    if not offered(t.client_offers, "subagents"):
        t.lose("subagents")
        return [carrier(update, t)]
    return [{**update, "state": STATE.inward(update["state"], t)}] if "state" in update else [update]


def _subagent_out(update: Message, session: SessionState, t: Translator) -> list[Message]:
    return [{**update, "state": STATE.outward(update["state"], t)}] if "state" in update else [update]


def _offered(name: str) -> Turning:
    """An update that a client of version 1 receives only if it announced the capability."""

    def turning(update: Message, session: SessionState, t: Translator) -> list[Message]:
        if offered(t.client_offers, "session", name):
            return [update]
        t.lose(name)
        return [carrier(update, t)]

    return turning


def _without(update: Message, name: str) -> Message:
    return {key: member for key, member in update.items() if key != name}


INWARD: dict[str, Turning] = {
    **{f"{kind}_chunk": _chunk_in for kind in SPEAKERS.values()},
    **dict.fromkeys(SPEAKERS.values(), _message_in),
    "tool_call_update": _tool_in,
    "tool_call_content_chunk": _chunk_of_tool_in,
    "terminal_update": _terminal_in,
    "terminal_output_chunk": _terminal_in,
    "plan_update": _plan_in,
    "plan_removed": _plan_removed_in,
    "available_commands_update": _commands_in,
    "config_option_update": _options_in,
    "notice": _offered("notices"),
    "compaction_update": _offered("compaction"),
    "compaction_summary_chunk": _offered("compaction"),
    "subagent_update": _subagent_in,
}
OUTWARD: dict[str, Turning] = {
    **{f"{kind}_chunk": _chunk_out for kind in SPEAKERS.values()},
    "tool_call": _tool_out,
    "tool_call_update": _tool_out,
    "plan": _plan_out,
    "plan_update": _plan_update_out,
    "available_commands_update": _commands_out,
    "config_option_update": _options_out,
    "current_mode_update": _mode_out,
    "subagent_update": _subagent_out,
}
