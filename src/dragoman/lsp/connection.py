"""One life of a language server: requests with an end, notifications both ways, answers to what it asks us."""

import asyncio
import contextlib
import itertools
import logging
from collections.abc import Callable

from ..foundation.documents import Document, Json, members
from ..foundation.owning import Cleanup, own
from .process import LanguageProcess, LanguageServerError
from .wire import MalformedMessage, framed, read_message

log = logging.getLogger("dragoman")

REQUEST = 30.0  # seconds a request may take
GRACE = 3.0  # seconds for the answer to a request that was cancelled; a server without one hangs
LEAVING = 3.0  # seconds for the answer to `shutdown`
MAX_UNSENT = 64 * 1024 * 1024  # bytes; a server that takes less hangs
MAX_PENDING = 200  # requests
INVALID_PARAMS = -32602
UNREADABLE = (TypeError, ValueError, LookupError, ArithmeticError)  # by a message of an unknown shape

Heard = Callable[[str, Document], None]
Asked = Callable[[str, Document], Json]


class LanguageServerRefusal(LanguageServerError):
    """A language server answered a request with an error."""


class LanguageConnection:
    """Speaks with a process.  `heard` is told its notifications; `asked` answers its requests, None for most."""

    def __init__(self, name: str, process: LanguageProcess, heard: Heard, asked: Asked) -> None:
        self._name = name
        self._process = process
        self._heard, self._asked = heard, asked
        self._ids = itertools.count(1)
        self._pending: dict[int, asyncio.Future[Json]] = {}
        self._why = ""  # it ended, where we know more than its exit code
        self._reader = own(self._read(), f"language server {name}")
        self.close = Cleanup(self._close)

    @property
    def is_lost(self) -> bool:
        return bool(self._why) or self._reader.done() or self._process.ended.is_set() or self.close.has_begun

    @property
    def pid(self) -> int:
        return self._process.pid

    async def request(self, method: str, params: Json, timeout: float = REQUEST) -> Json:
        """The result; raises LanguageServerError.

        A request that takes too long is cancelled.  A server that does not even answer that is ended.
        """
        if len(self._pending) >= MAX_PENDING:
            raise LanguageServerError(f"{self._name} owes {MAX_PENDING} answers; nothing more is asked")
        id = next(self._ids)
        answer: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self._pending[id] = answer
        try:
            self._send({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
            done, _ = await asyncio.wait([answer], timeout=timeout)
            if not done:
                self.notify("$/cancelRequest", {"id": id})
                done, _ = await asyncio.wait([answer], timeout=GRACE)
                if not done:
                    self._end(f"it did not answer {method} within {timeout:g} s and was ended")
                    raise self.failure()
                if answer.exception() is not None:
                    raise LanguageServerError(f"{self._name} did not answer {method} within {timeout:g} s")
            return answer.result()
        except asyncio.CancelledError:
            if not self.is_lost:
                self.notify("$/cancelRequest", {"id": id})
            raise
        finally:
            self._pending.pop(id, None)
            if answer.done() and not answer.cancelled():
                answer.exception()

    def notify(self, method: str, params: Json) -> None:
        """Tell the server something; raises LanguageServerError when it is gone."""
        self._send({"jsonrpc": "2.0", "method": method, "params": params})

    def failure(self) -> LanguageServerError:
        """Why the server is gone."""
        why = self._why or f"it ended with code {self._process.code}"
        words = f" ({self._process.last_words})" if self._process.last_words else ""
        return LanguageServerError(
            f"the language server {self._name} is gone: {why}{f' ({words})' if words else ''}"
        )

    def _send(self, message: Document) -> None:
        if self.is_lost:
            raise self.failure()
        if self._process.write(framed(message)) > MAX_UNSENT:
            self._end("it does not read what it is sent, and was ended")

    def _end(self, why: str) -> None:
        self._why = self._why or why
        self._process.kill()

    async def _read(self) -> None:
        try:
            while (message := await read_message(self._process.reader)) is not None:
                try:
                    self._take(message)
                except LanguageServerError:
                    break
                except UNREADABLE:
                    log.debug("a message of the language server %s cannot be read", self._name, exc_info=True)
        except MalformedMessage as exc:
            self._end(str(exc))
        finally:
            if not self._process.ended.is_set():
                self._process.kill()  # who speaks no more is of no use
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(GRACE):
                    await self._process.ended.wait()
            for answer in self._pending.values():
                if not answer.done():
                    answer.set_exception(self.failure())

    def _take(self, message: Document) -> None:
        method, id, params = message.get("method"), message.get("id"), members(message.get("params"))
        if isinstance(method, str):
            if id is None:
                self._heard(method, params)
            else:
                self._send({"jsonrpc": "2.0", "id": id, **self._outcome(method, params)})
            return
        answer = self._pending.get(id) if isinstance(id, int) else None
        if answer is None or answer.done():
            return
        if (error := message.get("error")) is not None:
            words = " ".join(str(members(error).get("message")).split())[:500]
            answer.set_exception(LanguageServerRefusal(f"{self._name}: {words}"))
        else:
            answer.set_result(message.get("result"))

    def _outcome(self, method: str, params: Document) -> Document:
        try:
            return {"result": self._asked(method, params)}
        except UNREADABLE as exc:
            return {"error": {"code": INVALID_PARAMS, "message": str(exc)[:500]}}

    async def _close(self) -> None:
        """Say goodbye, and end the process."""
        if not (self._reader.done() or self._process.ended.is_set()):
            answer = self._pending[0] = asyncio.get_running_loop().create_future()
            self._process.write(framed({"jsonrpc": "2.0", "id": 0, "method": "shutdown"}))
            await asyncio.wait([answer, self._reader], timeout=LEAVING, return_when=asyncio.FIRST_COMPLETED)
            self._process.write(framed({"jsonrpc": "2.0", "method": "exit"}))
            del self._pending[0]
            if answer.done():
                answer.exception()
        await self._process.close()
        await asyncio.wait([self._reader])
