"""The summary of a session's log, stored beside it so that the whole log need not be read again.

It is the fold of the records up to a number: rebuilt if it is lost, and continued from that number.
"""

import contextlib
from collections.abc import Iterable, Sequence
from hashlib import blake2b

import msgspec
from msgspec import Raw, Struct, field

from .engine import LogEntry
from .records import Answered, PromptAccepted, PromptEnded, QuestionAsked, is_update, raw, read_own

KINDS = ("summary", "checkpoint")  # the newest summary, and an older one in case that is damaged or refused
CHECKPOINT = 50_000  # records after which the older one is replaced
MAX_OUTCOMES = 4096  # prompts whose outcome can be found by key; the oldest of more is dropped
MAX_TOOLS = 1024  # calls that are reported as failed when their agent has ended; the oldest of more is dropped
MAX_TOOL_ID = 512  # characters of an id; a call with a longer one is not remembered


class _ToolState(Struct, rename="camel"):
    """The part of an update that shows which tool calls are running."""

    session_update: str = ""
    tool_call_id: str = ""
    status: str | None = None


class _Params(Struct):
    update: _ToolState


class _UpdateFrame(Struct):
    params: _Params


_read_update = msgspec.json.Decoder(_UpdateFrame).decode


class LogSummary(Struct):
    """The open items of a session, and the outcomes of its prompts, after the record `at`."""

    at: int = 0
    size: int = 0  # bytes of the log
    prompts: dict[str, int] = {}  # open prompts: record numbers by key
    questions: dict[str, str] = field(name="asks", default_factory=dict)  # open questions: methods by id
    tools: dict[str, int] = {}  # running tool calls
    outcomes: dict[str, int] = {}  # the record number of each prompt's outcome, by the digest of its key
    commands: int = 0  # the record number of the latest slash commands

    @staticmethod
    def read(kept: Iterable[bytes], last: int) -> "LogSummary":
        """The newest stored summary that can be continued, or an empty one."""
        found = [LogSummary()]
        for data in kept:
            with contextlib.suppress(msgspec.DecodeError):
                found.append(msgspec.json.decode(data, type=LogSummary))
        return max((one for one in found if one.at <= last), key=lambda one: one.at)

    def add(self, first: int, entries: Sequence[LogEntry]) -> None:
        """Fold in records, the first of which has this number."""
        for number, entry in enumerate(entries, first):
            self.at = number
            self.size += len(entry.frame)
            if not is_update(entry.frame):
                self._add_own(number, entry.frame)
            elif b'"tool_call' in entry.frame:  # for most, a search in the bytes is enough
                self._add_tool(number, entry.frame)
            elif b'"available_commands_update"' in entry.frame:
                self._add_commands(number, entry.frame)

    def _add_own(self, number: int, frame: bytes) -> None:
        match read_own(frame):
            case PromptAccepted(prompt=key):
                self.prompts[key] = number
            case PromptEnded(prompt=key):
                self.prompts.pop(key, None)
                _put(self.outcomes, _digest(key), number, MAX_OUTCOMES)
            case QuestionAsked(question=question, method=method):
                self.questions[question] = method
            case Answered(question=question):
                self.questions.pop(question, None)

    def _add_commands(self, number: int, frame: bytes) -> None:
        with contextlib.suppress(msgspec.DecodeError):
            if _read_update(frame).params.update.session_update == "available_commands_update":
                self.commands = number

    def _add_tool(self, number: int, frame: bytes) -> None:
        try:
            update = _read_update(frame).params.update
        except msgspec.DecodeError:
            return
        if update.session_update not in ("tool_call", "tool_call_update") or not update.tool_call_id:
            return
        if update.status in ("completed", "failed"):
            self.tools.pop(update.tool_call_id, None)
        elif len(update.tool_call_id) <= MAX_TOOL_ID and (update.session_update == "tool_call" or update.status):
            _put(self.tools, update.tool_call_id, number, MAX_TOOLS)

    def outcome_of(self, key: str) -> int | None:
        """The record number of a prompt's outcome."""
        return self.outcomes.get(_digest(key))

    def failures(self) -> Iterable[dict[str, Raw]]:
        """Updates that report each open tool call as failed."""
        for id in self.tools:
            update = {"sessionUpdate": "tool_call_update", "toolCallId": id, "status": "failed"}
            yield {"sessionId": raw(""), "update": raw(update)}


def _put(kept: dict[str, int], key: str, number: int, most: int) -> None:
    """Store a number under a key; beyond a limit, drop the oldest."""
    kept[key] = number
    if len(kept) > most:
        del kept[next(iter(kept))]


def _digest(key: str) -> str:
    """A short digest of a prompt's key, so that a summary of thousands of them is small."""
    return blake2b(key.encode(), digest_size=12).hexdigest()
