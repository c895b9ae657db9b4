"""How a session stands after its log, kept beside it so that nobody has to read all of it again.

It is the fold of the records up to one of them: made again when it is lost, gone on with from where it is.
"""

import contextlib
from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Raw, Struct

from .engine import LogEntry
from .records import Answered, PromptAccepted, PromptEnded, QuestionAsked, is_update, raw, read_own

KINDS = ("summary", "checkpoint")  # of facts: the newest, and an older one should that be damaged or refused
CHECKPOINT = 50_000  # records after which the older one is made anew
MAX_OUTCOMES = 4096  # prompts whose outcome is found by their key; of more the oldest is forgotten


class _ToolGlance(Struct, rename="camel"):
    """As much of an update as tells which tool calls are under way."""

    session_update: str = ""
    tool_call_id: str = ""
    status: str | None = None


class _Params(Struct):
    update: _ToolGlance


class _Told(Struct):
    params: _Params


_glance = msgspec.json.Decoder(_Told).decode


class LogSummary(Struct):
    """What is open in a session, and how its prompts ended, after the record `at`."""

    at: int = 0
    size: int = 0  # bytes of the log
    prompts: dict[str, int] = {}  # accepted and not ended, by key; where in the log
    asks: dict[str, QuestionAsked] = {}
    tools: dict[str, int] = {}  # calls that have begun and not ended
    ended: dict[str, int] = {}  # where in the log the outcome of each prompt stands
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
                self.ended[key] = number
                if len(self.ended) > MAX_OUTCOMES:
                    del self.ended[next(iter(self.ended))]
            case QuestionAsked() as asked:
                self.asks[asked.ask] = asked
            case Answered(ask=ask):
                self.asks.pop(ask, None)

    def _add_commands(self, number: int, frame: bytes) -> None:
        with contextlib.suppress(msgspec.DecodeError):
            if _glance(frame).params.update.session_update == "available_commands_update":
                self.commands = number

    def _add_tool(self, number: int, frame: bytes) -> None:
        try:
            glance = _glance(frame).params.update
        except msgspec.DecodeError:
            return
        if glance.session_update not in ("tool_call", "tool_call_update") or not glance.tool_call_id:
            return
        if glance.status in ("completed", "failed"):
            self.tools.pop(glance.tool_call_id, None)
        elif glance.session_update == "tool_call" or glance.status:
            self.tools[glance.tool_call_id] = number

    def failures(self) -> Iterable[dict[str, Raw]]:
        """The updates that say of each open tool call that it failed."""
        for id in self.tools:
            update = {"sessionUpdate": "tool_call_update", "toolCallId": id, "status": "failed"}
            yield {"sessionId": raw(""), "update": raw(update)}
