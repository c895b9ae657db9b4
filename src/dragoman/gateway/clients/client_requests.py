"""Decodes clients' requests like an agent of ours."""

from typing import Any

from msgspec import Raw

from ... import codec
from ...dialects import older
from ...errors import InvalidParams
from ...roles import AgentRole, methods
from ..log.records import AFTER, meta_value

PARAMS = {method.name: method.params for method in methods(AgentRole).values() if method.is_request}
CAPABILITIES = {method.name: method.capability for method in methods(AgentRole).values() if method.is_request}


def after_of(found: dict[str, Raw], default: int) -> int:
    """The number of the last update that a client has seen."""
    after = meta_value(found, AFTER)
    if after is None:
        return default
    if not isinstance(after, int) or after < 0:
        raise InvalidParams(f"{AFTER} has to be the number of an update")
    return after


def read_params(params: Raw, kind: Any) -> Any:
    """Decode params as the type of their method."""
    try:
        return codec.decode_params(Raw(older.mended(bytes(params), kind)), kind)
    except codec.Invalid as exc:
        raise InvalidParams(str(exc)) from None
