"""Error codes by their meanings: the same number has different meanings in different dialects.

A meaning for which version 1 has no code travels as an internal error whose `data.kind` names it, so that a dialect
that has a code for it can use that code.
"""

from collections.abc import Mapping

from ...foundation.documents import Document, Json

CANONICAL = {
    "auth_required": -32000,
    "auth_failed": -32000,
    "invalid_auth_method": -32602,
    "resource_not_found": -32002,
    "session_not_found": -32002,
    "permission_denied": -32603,
    "access_denied": -32603,
    "cancelled": -32800,
    "invalid_session_state": -32603,
    "capability_not_supported": -32601,
    "rate_limited": -32001,
    "timeout": -32603,
    "turn_failed": -32603,
}
_SYNONYMS = {  # the name that our own hosts use
    **dict.fromkeys(("outside_workspace", "read_only"), "access_denied"),
    "not_permitted": "permission_denied",
    "unknown_session": "session_not_found",
    "unknown_terminal": "resource_not_found",
    **dict.fromkeys(("terminal_limit", "watch_limit"), "rate_limited"),
}
_PLAIN = {-32000: "auth_required", -32002: "resource_not_found", -32800: "cancelled", -32001: "rate_limited"}


class Codes:
    """The codes of a dialect by their meanings; `nearest` names the substitute for a meaning without a code."""

    def __init__(self, codes: Mapping[str, int], nearest: Mapping[str, str] | None = None) -> None:
        self._code_of = {**codes, **{lacking: codes[other] for lacking, other in (nearest or {}).items()}}
        self._meaning_of: dict[Json, str] = {code: meaning for meaning, code in codes.items()}

    def inward(self, error: Json) -> Json:
        if not isinstance(error, dict) or not isinstance(code := error.get("code"), int):
            return error
        if (meaning := self._meaning_of.get(code)) is None:
            return error
        said = {**error, "code": CANONICAL[meaning]}
        if self.outward(said) != error:  # the number alone does not tell the meaning
            said["data"] = _with_kind(error, meaning)
        return said

    def outward(self, error: Json) -> Json:
        if not isinstance(error, dict) or (meaning := _meaning(error)) is None:
            return error
        said = _without_kind(error)
        if meaning in self._code_of:
            return {**said, "code": self._code_of[meaning]}
        code = error.get("code")
        if not isinstance(code, int) or code not in self._meaning_of:
            return error
        return {**error, "code": -32603, "data": _with_kind(error, meaning)}  # the number has another meaning here


def _meaning(error: Document) -> str | None:
    data = error.get("data")
    if isinstance(data, dict):
        if isinstance(kind := data.get("kind"), str) and (kind in CANONICAL or kind in _SYNONYMS):
            return _SYNONYMS.get(kind, kind)
        if error.get("code") == -32002 and "sessionId" in data:
            return "session_not_found"
    code = error.get("code")
    return _PLAIN.get(code) if isinstance(code, int) else None


def _with_kind(error: Document, meaning: str) -> Document:
    if "data" not in error:
        return {"kind": meaning}
    data = error["data"]
    return {**data, "kind": meaning} if isinstance(data, dict) else {"kind": meaning, "data": data}


def _without_kind(error: Document) -> Document:
    said, data = dict(error), error.get("data")
    if isinstance(data, dict) and data.get("kind") in CANONICAL:
        rest = {name: member for name, member in data.items() if name != "kind"}
        said["data"] = rest["data"] if set(rest) == {"data"} else rest
        if not rest:
            del said["data"]
    return said
