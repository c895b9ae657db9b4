"""Logins with credentials on the wire: a client that fails too often is disconnected.

Logins that the agent does itself (in a browser, with a key in its environment) have no limit.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from .. import schema as s
from ..connection.connection import Connection
from ..dialects.engine.shapes import CARRIED
from ..errors import RpcError
from ..events import Method

MAX_FAILURES = 3  # failed logins of one connection, after which it is closed
AUTHENTICATE = "authenticate"


class LoginFailures:
    """Counts the failed logins of one connection: the third with wrong credentials is answered and ends it."""

    def __init__(self, connection: Connection) -> None:
        self._connection, self._count = connection, 0

    def add(self, meta: object) -> None:
        """Note a failed login; `meta` is its `_meta`, which holds the credentials."""
        self._count += _has_credentials(meta)
        if self._count >= MAX_FAILURES:
            self._connection.after_answer(self._connection.hang_up)

    def forget(self) -> None:
        """A login succeeded."""
        self._count = 0


def limited_logins(requests: Mapping[str, Method], connection: Connection) -> Mapping[str, Method]:
    """The requests an agent answers; it disconnects after the third login with wrong credentials."""
    method, failures = requests.get(AUTHENTICATE), LoginFailures(connection)
    if method is None:
        return requests

    async def log_in(params: s.AuthenticateRequest) -> Any:
        assert method.handler
        try:
            result = await method.handler(params)
        except RpcError:
            failures.add(params.meta)
            raise
        failures.forget()
        return result

    return {**requests, AUTHENTICATE: msgspec.structs.replace(method, handler=log_in)}


def _has_credentials(meta: object) -> bool:
    """Whether a request carries credentials in its `_meta`; translated dialects put them there too."""
    by_dialect = meta.get(CARRIED) if isinstance(meta, dict) else None
    places = [meta, *(by_dialect.values() if isinstance(by_dialect, dict) else ())]
    return any(isinstance(place, dict) and "credentials" in place for place in places)
