"""LSP as the library speaks it, with an end for every request."""

from collections.abc import Mapping
from typing import Any

from pygls.exceptions import JsonRpcException
from pygls.protocol import LanguageServerProtocol


class EditorProtocol(LanguageServerProtocol):
    """The library drops a message that it cannot read; here the request that the message is, or answers, fails."""

    def structure_message(self, data: dict[str, Any]) -> Any:
        """Read a message; raises JsonRpcException for one that does not fit its method."""
        try:
            return super().structure_message(data)
        except JsonRpcException as exc:
            self._fail(data, exc)
            raise

    def _fail(self, data: Mapping[str, object], why: JsonRpcException) -> None:
        id = data.get("id")
        if not isinstance(id, int | str):
            return
        if "method" in data:
            self._send_response(id, error=why.to_response_error())
        elif (answer := self._request_futures.pop(id, None)) and not answer.done():
            answer.set_exception(why)
