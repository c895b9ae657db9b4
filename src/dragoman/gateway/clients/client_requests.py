"""Reads clients' requests as an agent of ours reads them."""

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
    """The last update a client has seen."""
    after = meta_value(found, AFTER)
    if after is None:
        return default
    if not isinstance(after, int) or after < 0:
        raise InvalidParams(f"{AFTER} has to be the number of an update")
    return after


def read_params(params: Raw, kind: Any) -> Any:
    """Params as what they have to be."""
    try:
        return codec.decode_params(Raw(older.mended(bytes(params), kind)), kind)
    except codec.Invalid as exc:
        raise InvalidParams(str(exc)) from None
