"""Messages of the `claude` program itself, not of the model: usage, compaction, retries, limits, memories."""

import uuid
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from .... import schema as s
from ....foundation.documents import Json, members
from ....schema.tools import ToolCallContent
from ..tools.shown import Input, objects, words

Message = Mapping[str, Json]
Denied = Callable[[str, str], Iterator[s.SessionUpdate]]

SMALL, LARGE = 200_000, 1_000_000  # tokens of a context window, until the program reports its size
COUNTERS = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
MAX_TITLE = 256  # characters of a notice's title


class SystemMessages:
    """The state of the context window and of a compaction, and the updates about them."""

    def __init__(self, *, notices: bool = False, compactions: bool = False) -> None:
        self.notices, self.compactions = notices, compactions
        self.size = SMALL
        self._is_measured = False  # whether the program has reported the size
        self.model = ""  # the model that answers, by the provider's name
        self._used = 0
        self._told: tuple[int, int] | None = None
        self._usage: dict[str, int] = {}
        self._compaction = ""  # the id of the running compaction

    def updates(self, message: Message, denied: Denied) -> Iterator[s.SessionUpdate]:
        """The updates for a message; most messages have none."""
        kind = message.get("type")
        if kind == "rate_limit_event":
            yield self._usage_update(meta={"_claude/rateLimit": message.get("rate_limit_info")})
        elif kind == "result":
            yield from self._result(message)
        elif kind == "prompt_suggestion" and message.get("suggestion"):
            yield s.SessionInfoUpdate(meta={"promptSuggestions": [message["suggestion"]]})
        elif kind == "system":
            yield from self._system(message, denied)

    def _system(self, message: Message, denied: Denied) -> Iterator[s.SessionUpdate]:
        match message.get("subtype"):
            case "init":
                self.use_model(str(message.get("model") or ""))
            case "status":
                yield from self._status(message)
            case "compact_boundary":
                after = members(message.get("compact_metadata")).get("post_tokens")
                if isinstance(after, int):
                    self._used = after
                    yield from self._tell_usage()
            case "local_command_output" | "informational":
                words = str(message.get("content") or "").strip()
                if words:
                    yield from self.notice("info", words, always=True)
            case "permission_denied":
                why = message.get("decision_reason") or message.get("message") or "the settings forbid it"
                yield from denied(str(message.get("tool_use_id")), f"Permission denied: {why}")
            case "memory_recall":
                yield _memories(message)
            case "api_retry":
                yield from self.notice("warning", _retry(message))
            case "model_refusal_fallback":
                other = message.get("fallback_model") or "another model"
                told = f"{message.get('original_model') or 'The model'} declined; {other} answers"
                yield from self.notice("warning", told, always=True)

    # The context window

    def use_model(self, name: str) -> None:
        """Guess the size of the window from the model's name, until a result reports it."""
        if name and name != self.model and not name.startswith("<"):
            self.model = name
            if not self._is_measured:
                self.size = LARGE if "1m" in name.lower() else SMALL

    def measured(self, size: int | None) -> None:
        """Note the size that the program reports; None after another model was chosen, until the next report."""
        self._is_measured = size is not None
        self.size = size or self.size

    def used(self, usage: Json, model: str | None = None) -> Iterator[s.SessionUpdate]:
        """Count the tokens of an answer; later counts in a stream are totals, not additions."""
        if model is not None:
            self._usage = {}
        if not isinstance(usage, dict) or (model or "").startswith("<"):
            return
        self._usage.update({name: usage[name] for name in COUNTERS if isinstance(usage.get(name), int)})
        self._used = sum(self._usage.values())
        yield from self._tell_usage()

    def _tell_usage(self) -> Iterator[s.SessionUpdate]:
        if self._told != (self._used, self.size):
            self._told = (self._used, self.size)
            yield self._usage_update()

    def _usage_update(self, cost: s.Cost | None = None, meta: Input = MappingProxyType({})) -> s.UsageUpdate:
        model = {"_claude/model": self.model} if self.model else {}
        return s.UsageUpdate(used=self._used, size=self.size, cost=cost, meta={**model, **meta} or None)

    def _result(self, message: Message) -> Iterator[s.SessionUpdate]:
        models = message.get("modelUsage")
        models = models if isinstance(models, dict) else {}
        entry = models.get(self.model) or next(iter(models.values()), None)
        if isinstance(entry, dict) and isinstance(entry.get("contextWindow"), int):
            self.measured(entry["contextWindow"])
        amount, cost = message.get("total_cost_usd"), None
        if isinstance(amount, int | float):
            cost = s.Cost(amount=float(amount), currency="USD")
        meta = {"_claude/origin": message["origin"]} if message.get("origin") else {}
        self._told = (self._used, self.size)
        yield self._usage_update(cost, meta)

    # Compaction

    def _status(self, message: Message) -> Iterator[s.SessionUpdate]:
        if message.get("status") == "compacting" and not self._compaction:
            self._compaction = str(uuid.uuid4())
            yield self._compacting("in_progress")
        elif message.get("compact_result") and self._compaction:
            error = str(message.get("compact_error") or "the conversation could not be compacted")
            failed = message["compact_result"] != "success"
            yield self._compacting("failed" if failed else "completed", error if failed else None)
            self._compaction = ""

    def interrupted(self) -> Iterator[s.SessionUpdate]:
        """End a compaction whose end will not be reported."""
        if self._compaction:
            yield self._compacting("cancelled" if self.compactions else "failed", None)
            self._compaction = ""

    def _compacting(self, status: Any, error: str | None = None) -> s.SessionUpdate:
        if self.compactions:
            return s.CompactionUpdate(compaction_id=self._compaction, status=status, error=error or s.UNSET)
        content: list[ToolCallContent] | None = [s.Content(content=s.TextContent(text=error))] if error else None
        if status == "in_progress":
            return s.ToolCall(
                tool_call_id=self._compaction, title="Compact conversation", kind="think", status="in_progress"
            )
        return s.ToolCallUpdated(tool_call_id=self._compaction, status=status, content=content)

    # Notices

    def notice(self, severity: s.NoticeSeverity, words: str, *, always: bool = False) -> Iterator[s.SessionUpdate]:
        """A notice for the user; with `always`, clients without notices get it as a message."""
        title, _, rest = words.partition("\n")
        if self.notices:
            cut = len(title) > MAX_TITLE
            yield s.Notice(
                severity=severity,
                title=f"{title[: MAX_TITLE - 1]}…" if cut else title,
                description=words if cut else rest.strip() or None,
            )
        elif always:
            told = words if severity == "info" else f"**{severity.capitalize()}:** {words}"
            yield s.AgentMessageChunk(content=s.TextContent(text=told))


def _retry(message: Message) -> str:
    status, why = message.get("error_status"), message.get("error") or "unknown"
    told = f"{why}, status {status}" if status else "the connection broke"
    return f"Trying again ({told}): attempt {message.get('attempt')} of {message.get('max_retries')}"


def _memories(message: Message) -> s.ToolCall:
    memories = objects(message.get("memories"))
    places = [
        s.ToolCallLocation(path=words(entry, "path")) for entry in memories if words(entry, "path").startswith("/")
    ]
    plural = "memory" if len(memories) == 1 else "memories"
    return s.ToolCall(
        tool_call_id=str(message.get("uuid") or uuid.uuid4()),
        title=f"Recalled {len(memories)} {plural}",
        kind="read",
        status="completed",
        locations=places,
    )
