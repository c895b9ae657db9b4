"""Turn messages of the `claude` program into session updates.

The updates depend only on the messages so far, so the same code serves a running program and the replay of a
transcript.  Text and thoughts are sent as they are streamed; the complete message adds what was missing.
"""

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from .... import schema as s
from ....foundation.documents import Document, Json, members
from ....schema.tools import ToolCallContent
from ..tools.outcome import RESULTS, Outcome, outcome
from ..tools.partial import is_whole, partial_object
from ..tools.plans import Tasks, todo_plan
from ..tools.shown import SILENT, Shown, shown, words
from . import markers
from .system_messages import SystemMessages

Message = Mapping[str, Json]
TOOL_USES = ("tool_use", "server_tool_use", "mcp_tool_use")
MAX_STREAMED = 16 * 1024  # characters of an input that is sent in parts; a longer one is sent when it is complete
REMEMBERED = 4096  # tool calls and messages


class ToldCall(Struct):
    """A tool call that was sent to the client."""

    name: str
    given: Message = {}
    parent: str | None = None
    json: str = ""  # the streamed part of its input
    streamed: int = 0  # how many members of the input were sent
    told: dict[str, Any] = {}  # the fields of updates that the client has, by name
    settled: bool = False


class Streamed(Struct):
    """The parts sent of a streamed message, by kind, and how much of them complete messages have confirmed."""

    id: str = ""
    told: dict[str, str] = {}
    counted: dict[str, int] = {}


class MessageTranslator:
    """Turns messages into updates; remembers the tool calls and the plan so far."""

    def __init__(self, cwd: str, *, terminals: bool = False, subagent_text: bool = False) -> None:
        self.cwd = cwd
        self.calls: OrderedDict[str, ToldCall] = OrderedDict()
        self.results: dict[str, Outcome] = {}  # results of calls made through the client, by their id
        self.system = SystemMessages()
        self._terminals = terminals
        self._subagent_text = subagent_text
        self._streams: dict[str | None, Streamed] = {}
        self._blocks: dict[tuple[str | None, int], str] = {}  # the call of each streamed block
        self._tasks = Tasks()
        self._seen: OrderedDict[str, None] = OrderedDict()

    def updates(self, message: Message) -> Iterator[s.SessionUpdate]:
        """The updates for a message, in order."""
        match message.get("type"):
            case "stream_event":
                yield from self._streamed(members(message.get("event")), _parent(message))
            case "assistant":
                if self._is_new(message):
                    yield from self._said(message)
            case "user":
                yield from self._heard(message)
            case "tool_progress":
                yield from self._progress(message)
            case _:
                yield from self.system.updates(message, self.denied)

    def replayed(self, message: Message) -> Iterator[s.SessionUpdate]:
        """The updates for a message of a transcript, including the user's messages."""
        if message.get("type") != "user":
            yield from self.updates(message)
            return
        id = words(message, "uuid") or None
        for block in _blocks(message):
            if block.get("type") in RESULTS:
                continue
            if shown := markers.user_content(block):
                yield s.UserMessageChunk(content=shown, message_id=id)
        yield from self._results(message)

    def denied(self, id: str, why: str) -> Iterator[s.SessionUpdate]:
        """The updates for a tool call that was denied, and so has failed."""
        if (call := self.calls.get(id)) and not call.settled:
            call.settled = True
            told: Sequence[ToolCallContent] = [s.Content(content=s.TextContent(text=why))]
            yield s.ToolCallUpdated(tool_call_id=id, status="failed", content=told, meta=self._meta(call))

    def unsettled(self) -> Iterator[s.SessionUpdate]:
        """End the open calls after their turn was cancelled or their program has ended."""
        for id in [id for id, call in self.calls.items() if not call.settled]:
            yield from self.denied(id, "Cancelled.")

    def introduce(self, id: str, name: str, given: Message, parent: str | None) -> Iterator[s.SessionUpdate]:
        """Send a tool call with its whole input; if it was sent before, update it."""
        known = self.calls.get(id)
        if name in SILENT:
            self._remember(id, ToldCall(name, given, parent, settled=True))
            if name == "TodoWrite":
                yield todo_plan(given)
            return
        if known is None:
            self._remember(id, call := ToldCall(name, given, parent))
            yield self._began(id, call, shown(name, given, self.cwd), given)
        else:
            known.given, known.json = given, ""
            yield from self._refined(id, known, given)

    # Streamed parts

    def _streamed(self, event: Message, parent: str | None) -> Iterator[s.SessionUpdate]:
        kind, found = event.get("type"), event.get("index")
        index = found if isinstance(found, int) else 0
        stream = self._streams.setdefault(parent, Streamed())
        match kind:
            case "message_start":
                opened = members(event.get("message"))
                self._streams[parent] = Streamed(str(opened.get("id") or ""), {}, {})
                if parent is None:
                    yield from self.system.used(opened.get("usage"), words(opened, "model") or None)
            case "content_block_start":
                block = members(event.get("content_block"))
                if block.get("type") in TOOL_USES:
                    yield from self._announce(block, parent, index)
                else:
                    yield from self._piece(stream, parent, block)
            case "content_block_delta":
                delta = members(event.get("delta"))
                if delta.get("type") == "input_json_delta":
                    yield from self._input(
                        self._blocks.get((parent, index), ""), str(delta.get("partial_json") or "")
                    )
                else:
                    yield from self._piece(stream, parent, delta)
            case "message_delta" if parent is None:
                yield from self.system.used(event.get("usage"))

    def _piece(self, stream: Streamed, parent: str | None, piece: Message) -> Iterator[s.SessionUpdate]:
        kind = "thinking" if piece.get("type") in ("thinking", "thinking_delta") else "text"
        words = piece.get(kind)
        if isinstance(words, str) and words and (parent is None or self._subagent_text):
            stream.told[kind] = stream.told.get(kind, "") + words
            yield _chunk(kind, words, stream.id, parent)

    def _announce(self, block: Message, parent: str | None, index: int) -> Iterator[s.SessionUpdate]:
        id, name = str(block.get("id")), str(block.get("name"))
        self._blocks[parent, index] = id
        if name in SILENT or id in self.calls:
            return
        self._remember(id, call := ToldCall(name, {}, parent))
        yield self._began(id, call, shown(name, {}, self.cwd), {})

    def _input(self, id: str, part: str) -> Iterator[s.SessionUpdate]:
        """Send the input of a call so far, whenever another of its members is complete."""
        if (call := self.calls.get(id)) is None or call.settled or len(call.json) > MAX_STREAMED:
            return
        call.json += part
        given = partial_object(call.json)
        if len(given) > call.streamed and not is_whole(call.json):  # the next message has the whole input
            call.streamed = len(given)
            yield from self._refined(id, call, given)

    # Complete messages

    def _said(self, message: Message) -> Iterator[s.SessionUpdate]:
        parent, said = _parent(message), members(message.get("message"))
        id = str(said.get("id") or message.get("uuid") or "")
        stream = self._streams.get(parent)
        for block in _blocks(message):
            kind = block.get("type")
            if kind in TOOL_USES:
                yield from self.introduce(str(block["id"]), str(block["name"]), members(block.get("input")), parent)
            elif kind in RESULTS:
                yield from self._settle(block, None)
            elif kind in ("text", "thinking") and (parent is None or self._subagent_text):
                words = str(block.get(kind) or "")
                rest = _missing(stream, kind, words) if stream and stream.id == id else words
                if rest:
                    yield _chunk(kind, rest, id, parent)

    def _heard(self, message: Message) -> Iterator[s.SessionUpdate]:
        """A user message: only results of tools and the output of commands are sent."""
        said = members(message.get("message")).get("content")
        if isinstance(said, str) and message.get("isReplay") and (printed := markers.printed(said)):
            if printed.startswith(markers.MODEL_SET):
                return  # the user has chosen it, and sees it as an option
            yield _chunk("text", printed, str(message.get("uuid") or ""), None)
        yield from self._results(message)

    def _results(self, message: Message) -> Iterator[s.SessionUpdate]:
        structured = message.get("tool_use_result", message.get("toolUseResult"))
        for block in _blocks(message):
            if block.get("type") in RESULTS:
                yield from self._settle(block, structured)

    def _settle(self, block: Message, structured: Json) -> Iterator[s.SessionUpdate]:
        id = str(block.get("tool_use_id"))
        call = self.calls.get(id)
        if call is None:
            return
        if call.name in SILENT:
            output = structured if isinstance(structured, dict) else block.get("content")
            if not block.get("is_error") and (plan := self._tasks.done(call.name, call.given, output)):
                yield plan
            return
        ended = self.results.pop(id, None) or outcome(call.name, call.given, block, structured, self.cwd)
        call.settled = True
        response = {} if structured is None or block.get("is_error") else {"toolResponse": structured}
        yield self._ended(id, call, ended, block, self._meta(call, **response))

    def _progress(self, message: Message) -> Iterator[s.SessionUpdate]:
        id = str(message.get("tool_use_id"))
        if (call := self.calls.get(id)) and not call.settled:
            meta = self._meta(call, toolResponse={"elapsedTimeSeconds": message.get("elapsed_time_seconds")})
            yield s.ToolCallUpdated(tool_call_id=id, status="in_progress", meta=meta)

    # Tool calls

    def _began(self, id: str, call: ToldCall, look: Shown, given: Json) -> s.ToolCall:
        meta = self._meta(call)
        content = look.content
        if self._in_terminal(call):
            content, meta = (
                [s.Terminal(terminal_id=id)],
                {**meta, "terminal_info": {"terminal_id": id, "cwd": self.cwd}},
            )
        places = list(look.locations)
        call.told = {"title": look.title, "content": list(content), "locations": places, "raw_input": given}
        return s.ToolCall(tool_call_id=id, name=call.name, kind=look.kind, meta=meta, **call.told)

    def _refined(self, id: str, call: ToldCall, given: Message) -> Iterator[s.SessionUpdate]:
        """Send the fields that have become known."""
        look = shown(call.name, given, self.cwd)
        changed = self._changed(
            call,
            title=look.title,
            content=None if self._in_terminal(call) else list(look.content) or None,
            locations=list(look.locations) or None,
            raw_input=given,
        )
        if changed:
            yield s.ToolCallUpdated(tool_call_id=id, meta=self._meta(call), **changed)

    def _changed(self, call: ToldCall, **fields: Any) -> dict[str, Any]:
        """The fields that the client does not have yet; they count as sent from now on."""
        changed = {
            name: value for name, value in fields.items() if value is not None and call.told.get(name) != value
        }
        call.told = {**call.told, **changed}
        return changed

    def _ended(self, id: str, call: ToldCall, ended: Outcome, block: Message, meta: Document) -> s.ToolCallUpdated:
        content = list(ended.content) or None
        if self._in_terminal(call):
            content = None
            meta["terminal_output"] = {"terminal_id": id, "data": ended.output or ""}
            meta["terminal_exit"] = {"terminal_id": id, "exit_code": ended.exit_code, "signal": None}
        return s.ToolCallUpdated(
            tool_call_id=id,
            status="failed" if ended.failed else "completed",
            raw_output=block.get("content"),
            meta=meta,
            **self._changed(call, title=ended.title, content=content, locations=list(ended.locations) or None),
        )

    def _in_terminal(self, call: ToldCall) -> bool:
        return self._terminals and call.name in ("Bash", "PowerShell")

    def _meta(self, call: ToldCall, **more: Json) -> Document:
        parent = {"parentToolUseId": call.parent} if call.parent else {}
        return {"claudeCode": {"toolName": call.name, **parent, **more}}

    def _remember(self, id: str, call: ToldCall) -> None:
        self.calls[id] = call
        while len(self.calls) > REMEMBERED:
            self.calls.popitem(last=False)

    def _is_new(self, message: Message) -> bool:
        """Whether a message was not sent before; after a compaction, the program repeats those that it kept."""
        id = message.get("uuid")
        if not isinstance(id, str):
            return True
        if id in self._seen:
            return False
        self._seen[id] = None
        while len(self._seen) > REMEMBERED:
            self._seen.popitem(last=False)
        return True


def _parent(message: Message) -> str | None:
    parent = message.get("parent_tool_use_id")
    return parent if isinstance(parent, str) else None


def _blocks(message: Message) -> list[Message]:
    said = message.get("message")
    content = said.get("content") if isinstance(said, dict) else None
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def _chunk(kind: str, words: str, id: str, parent: str | None) -> s.AgentMessageChunk | s.AgentThoughtChunk:
    chunk = s.AgentThoughtChunk if kind == "thinking" else s.AgentMessageChunk
    meta = {"claudeCode": {"parentToolUseId": parent}} if parent else None
    return chunk(content=s.TextContent(text=words), message_id=id or None, meta=meta)


def _missing(stream: Streamed, kind: str, words: str) -> str:
    """The part of a complete block that was not streamed."""
    counted = stream.counted.get(kind, 0)
    told = stream.told.get(kind, "")[counted:]
    stream.counted[kind] = counted + len(words)
    if told.startswith(words):
        return ""
    if words.startswith(told):
        stream.told[kind] = stream.told.get(kind, "") + words[len(told) :]
        return words[len(told) :]
    return words
