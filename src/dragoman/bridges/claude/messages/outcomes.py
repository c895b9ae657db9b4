"""The end of a turn: what the program's `result` means for the prompt."""

from collections.abc import Mapping

from msgspec import Struct

from .... import schema as s
from ....errors import AuthRequired, InternalError, RpcError
from ....foundation.documents import Document, Json, members, strings_in
from ..tools.shown import objects
from .markers import wants_login
from .system_messages import COUNTERS, Message

TOO_LONG = "max_output_tokens"
MODEL_COUNTERS = ("inputTokens", "outputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")
Counts = tuple[int, ...]  # in this order
LIMITS = ("error_max_turns", "error_max_budget_usd", "error_max_structured_output_retries")


class Ended(Struct, frozen=True):
    """The end of a turn."""

    stop_reason: s.StopReason
    usage: s.Usage | None = None
    meta: Document | None = None


class Failure(Struct, frozen=True):
    """A message of the program, in place of the model's, when the provider refuses."""

    kind: str = ""
    told: str = ""


def failure_in(message: Message) -> Failure | None:
    """The failure that a message reports; None for a message that is shown to the user."""
    kind = message.get("error")
    if message.get("type") != "assistant" or not message.get("is_api_error_message") or not isinstance(kind, str):
        return None
    said = members(message.get("message"))
    if kind == TOO_LONG or said.get("stop_reason") == "refusal":
        return None
    blocks = objects(said.get("content"))
    return Failure(kind, " ".join(str(block.get("text") or "") for block in blocks))


def ended(result: Message, failure: Failure, spent: Mapping[str, Counts]) -> Ended | RpcError:
    """The answer to a prompt, or the error of a failed turn.  `spent` is its usage of each model."""
    told = _words(result)
    aborted = str(result.get("terminal_reason") or "").startswith("aborted")
    if failure.kind == "authentication_failed" or (result.get("is_error") and wants_login(told)):
        return AuthRequired(failure.told or told)
    subtype = str(result.get("subtype") or "")
    reason: s.StopReason = "end_turn"
    if aborted:
        reason = "cancelled"
    elif subtype in LIMITS:
        reason = "max_turn_requests"
    elif result.get("api_error") == TOO_LONG or result.get("stop_reason") == "max_tokens":
        reason = "max_tokens"
    elif result.get("stop_reason") == "refusal":
        reason = "refusal"
    elif result.get("is_error") or subtype.startswith("error"):
        return _error(result, failure, told)
    usage = _usage(result)
    return Ended(reason, usage, _quota(usage, spent))


def _words(result: Message) -> str:
    errors = strings_in(result.get("errors"))
    return "; ".join(errors) or str(result.get("result") or "").strip()


def _error(result: Message, failure: Failure, told: str) -> RpcError:
    kind, status = result.get("api_error") or failure.kind, result.get("api_error_status")
    data = {name: value for name, value in (("errorKind", kind), ("status", status)) if value}
    return InternalError(told or f"claude failed ({result.get('subtype')})", data or None)


def _usage(result: Message) -> s.Usage | None:
    usage = result.get("usage")
    if not isinstance(usage, dict):
        return None
    given, said, read, written = (_count(usage.get(name)) for name in COUNTERS)
    return s.Usage(
        total_tokens=given + said + read + written,
        input_tokens=given,
        output_tokens=said,
        cached_read_tokens=read,
        cached_write_tokens=written,
    )


def _count(value: Json) -> int:
    return value if isinstance(value, int) and value >= 0 else 0


def counts_of(result: Message) -> dict[str, Counts]:
    """The usage of each model since the program was started."""
    models = result.get("modelUsage")
    return {
        name: tuple(_count(told.get(counter)) for counter in MODEL_COUNTERS)
        for name, told in (models.items() if isinstance(models, dict) else ())
        if isinstance(told, dict)
    }


def spent_since(before: Mapping[str, Counts], now: Mapping[str, Counts]) -> dict[str, Counts]:
    """The usage between two counts; a program that was started again counts from zero."""
    found = {}
    for name, counts in now.items():
        old = before.get(name, ())
        is_later = len(old) == len(counts) and all(then <= count for then, count in zip(old, counts, strict=True))
        spent = tuple(count - then for then, count in zip(old, counts, strict=True)) if is_later else counts
        if any(spent):
            found[name] = spent
    return found


def _quota(usage: s.Usage | None, spent: Mapping[str, Counts]) -> Document | None:
    """The turn's tokens in total and by model, for clients that count them."""
    if usage is None:
        return None
    total = (
        usage.input_tokens,
        usage.output_tokens,
        usage.cached_read_tokens or 0,
        usage.cached_write_tokens or 0,
    )
    by_model: list[Json] = [{"model": name, "token_count": _token_count(counts)} for name, counts in spent.items()]
    return {"quota": {"token_count": _token_count(total), "model_usage": by_model}}


def _token_count(counts: Counts) -> dict[str, int]:
    given, said, read, written = counts
    return {
        "totalTokens": sum(counts),
        "inputTokens": given,
        "cachedInputTokens": read,
        "cachedWriteTokens": written,
        "outputTokens": said,
        "reasoningOutputTokens": 0,  # thoughts are counted as output
    }
