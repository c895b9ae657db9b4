"""Logins with credentials on the wire: a client that fails too often is disconnected.

A login that the agent sees to itself (a browser, a key in its environment) may be tried as often as the user likes.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from .. import schema as s
from ..connection.connection import Connection
from ..dialects.engine.shapes import CARRIED
from ..errors import RpcError
from ..events import Method

MAX_FAILURES = 3  # of one connection, after which it is ended
AUTHENTICATE = "authenticate"


def limited_logins(requests: Mapping[str, Method], connection: Connection) -> Mapping[str, Method]:
    """The requests an agent answers; after three logins with wrong credentials it answers, and hangs up."""
    method, failures = requests.get(AUTHENTICATE), 0
    if method is None:
        return requests

    async def log_in(params: s.AuthenticateRequest) -> Any:
        nonlocal failures
        assert method.handler
        try:
            result = await method.handler(params)
        except RpcError:
            failures += _has_credentials(params.meta)
            if failures >= MAX_FAILURES:
                connection.after_answer(connection.hang_up)
            raise
        failures = 0
        return result

    return {**requests, AUTHENTICATE: msgspec.structs.replace(method, handler=log_in)}


def _has_credentials(meta: s.JsonObject | None) -> bool:
    """Whether a request brings credentials: in `_meta`, where a dialect puts them as well."""
    by_dialect = (meta or {}).get(CARRIED)
    places = [meta, *(by_dialect.values() if isinstance(by_dialect, dict) else ())]
    return any(isinstance(place, dict) and "credentials" in place for place in places)
