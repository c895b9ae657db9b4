"""How a session stands after its log, kept beside it so that nobody has to read all of it again.

It is the fold of the records up to one of them: made again when it is lost, gone on with from where it is.
"""

import contextlib
from collections.abc import Iterable, Sequence
from hashlib import blake2b

import msgspec
from msgspec import Raw, Struct, field

from .engine import LogEntry
from .records import Answered, PromptAccepted, PromptEnded, QuestionAsked, is_update, raw, read_own

KINDS = ("summary", "checkpoint")  # of facts: the newest, and an older one should that be damaged or refused
CHECKPOINT = 50_000  # records after which the older one is made anew
MAX_OUTCOMES = 4096  # prompts whose outcome is found by their key; of more the oldest is forgotten
MAX_TOOLS = 1024  # calls that are told to have failed when their agent is gone; of more the oldest is forgotten
MAX_TOOL_ID = 512  # characters; a call with a longer one is not remembered


class _ToolState(Struct, rename="camel"):
    """As much of an update as tells which tool calls are under way."""

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
    prompts: dict[str, int] = {}  # accepted and not ended, by key; where in the log
    questions: dict[str, str] = field(name="asks", default_factory=dict)  # open, by id: their method
    tools: dict[str, int] = {}  # calls that have begun and not ended
    outcomes: dict[str, int] = {}  # where in the log each prompt ended, by the digest of its key
    commands: int = 0  # where the commands that there are were told last

    @staticmethod
    def read(kept: Iterable[bytes], last: int) -> "LogSummary":
        """The newest of those that were kept and can be gone on with, or the beginning of a new one."""
        found = [LogSummary()]
        for data in kept:
            with contextlib.suppress(msgspec.DecodeError):
                found.append(msgspec.json.decode(data, type=LogSummary))
        return max((one for one in found if one.at <= last), key=lambda one: one.at)

    def add(self, first: int, entries: Sequence[LogEntry]) -> None:
        """Go on with records, the first of which has this number."""
        for number, entry in enumerate(entries, first):
            self.at = number
            self.size += len(entry.frame)
            if not is_update(entry.frame):
                self._add_own(number, entry.frame)
            elif b'"tool_call' in entry.frame:  # of most a look at the bytes is enough
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
        """Where in the log a prompt's outcome stands."""
        return self.outcomes.get(_digest(key))

    def failures(self) -> Iterable[dict[str, Raw]]:
        """The updates that say of each open tool call that it failed."""
        for id in self.tools:
            update = {"sessionUpdate": "tool_call_update", "toolCallId": id, "status": "failed"}
            yield {"sessionId": raw(""), "update": raw(update)}


def _put(kept: dict[str, int], key: str, number: int, most: int) -> None:
    """Put a number under a key; beyond so many, the oldest goes."""
    kept[key] = number
    if len(kept) > most:
        del kept[next(iter(kept))]


def _digest(key: str) -> str:
    """A short name of a prompt, so that a summary of thousands of them is small."""
    return blake2b(key.encode(), digest_size=12).hexdigest()
