"""One `claude` process: its messages, our requests to it, and its requests to us.

Each message is a line of JSON.  Requests go both ways as `control_request` and `control_response`; every other
message is given to `heard`, one at a time and in order, so that a slow client slows the program down.
"""

import asyncio
import logging
import os
import uuid
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence

import msgspec

from ....errors import ConnectionClosed, Error, brief
from ....foundation.documents import Document, Json, document, string
from ....foundation.owning import Cleanup, own
from ....framing import Oversize
from ....transports.process import ProcessTransport, spawn

log = logging.getLogger("dragoman")

Message = Document
Heard = Callable[[Message], Awaitable[None]]
Asked = Callable[[Message], Awaitable[Message]]

MAX_LINE = 64 * 1024 * 1024  # bytes; a message may contain images
MANY, FEW = 256, 64  # waiting lines above which the program has to wait, and below which it may continue
REQUEST_TIMEOUT = 60.0


class ProgramError(Error):
    """The program refused a request, or did not answer it."""


class ClaudeProgram:
    """A running `claude`; `start` starts one, and `close` ends it with all its children."""

    def __init__(self, wire: ProcessTransport, heard: Heard, asked: Asked) -> None:
        self._wire, self._heard, self._asked = wire, heard, asked
        self._lines: deque[bytes | Oversize] = deque()
        self._arrived = asyncio.Event()
        self._over = False  # set when nothing more arrives
        self._held = False
        self._waiting: dict[str, asyncio.Future[Message]] = {}
        self._answering: dict[str, asyncio.Task[None]] = {}
        self.ended: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
        self._closing = Cleanup(self._close)
        wire.listen(self._hear, self._end)
        self._pumping = own(self._pump(), "claude")

    @classmethod
    async def start(
        cls, argv: Sequence[str], *, cwd: str, env: Mapping[str, str], heard: Heard, asked: Asked
    ) -> "ClaudeProgram":
        """Start the program; raises AgentStartError where that is impossible."""
        return cls(await spawn(argv, cwd=cwd, env=env, limit=MAX_LINE), heard, asked)

    @property
    def is_alive(self) -> bool:
        """Whether the program still answers."""
        return not self.ended.done() and not self._closing.has_begun

    def say(self, message: Message) -> None:
        """Send a message; does nothing once the program has ended."""
        self._wire.send([msgspec.json.encode(message)])

    async def request(self, subtype: str, *, timeout: float | None = REQUEST_TIMEOUT, **members: Json) -> Message:
        """Send a request and return the answer; raises ProgramError, or the reason why the program ended."""
        if self.ended.done():
            raise self.ended.result()
        id = str(uuid.uuid4())
        self._waiting[id] = answer = asyncio.get_running_loop().create_future()
        self.say({"type": "control_request", "request_id": id, "request": {"subtype": subtype, **members}})
        try:
            async with asyncio.timeout(timeout):
                given: Message = await answer
                return given
        except TimeoutError:
            raise ProgramError(f"claude did not answer {subtype!r} within {timeout:g} s") from None
        finally:
            self._waiting.pop(id, None)

    async def close(self) -> None:
        """End the program."""
        await self._closing()

    async def _close(self) -> None:
        await self._wire.close()
        await asyncio.wait([self._pumping])

    # Received messages

    def _hear(self, lines: list[bytes | Oversize]) -> None:
        self._lines.extend(lines)
        self._arrived.set()
        if len(self._lines) > MANY and not self._held:
            self._held = True
            self._wire.hold()

    def _end(self) -> None:
        self._over = True
        self._arrived.set()

    async def _pump(self) -> None:
        """Handle all messages in order; at the end, fail all open requests."""
        try:
            while await self._more():
                line = self._lines.popleft()
                try:
                    await self._take(line)
                except ConnectionClosed:
                    pass  # there is no receiver any more
                except Exception:  # a message that is not understood does not affect the others
                    log.exception("a message of claude was not understood: %s", brief(repr(line)))
        finally:
            why = await self._wire.why_ended()
            for answer in self._waiting.values():
                if not answer.done():
                    answer.set_exception(why)
                    answer.exception()  # the requests fail with this error, so it needs no report
            for task in list(self._answering.values()):
                task.cancel()
            self.ended.set_result(why)

    async def _more(self) -> bool:
        """Wait for a line; false at the end."""
        while not self._lines:
            if self._over:
                return False
            self._arrived.clear()
            await self._arrived.wait()
        if self._held and len(self._lines) <= FEW:
            self._held = False
            self._wire.resume()
        return True

    async def _take(self, line: bytes | Oversize) -> None:
        if isinstance(line, Oversize):
            log.error("a line of claude has %d bytes, which is too long", line.size)
            return
        if not line.lstrip().startswith(b"{"):
            log.debug("claude: %s", line[:200])
            return
        message: Message = msgspec.json.decode(line)
        match message.get("type"):
            case "control_response":
                self._answered(document(message["response"]))
            case "control_request":
                id = string(message["request_id"])
                self._answering[id] = task = own(self._answer(id, document(message["request"])))
                task.add_done_callback(lambda _: self._answering.pop(id, None))
            case "control_cancel_request":
                if answering := self._answering.get(str(message.get("request_id"))):
                    answering.cancel()
            case _:
                await self._heard(message)

    def _answered(self, response: Message) -> None:
        answer = self._waiting.get(str(response.get("request_id")))
        if answer is None or answer.done():
            return
        if response.get("subtype") == "error":
            answer.set_exception(ProgramError(str(response.get("error") or "claude refused the request")))
        else:
            result = response.get("response")
            answer.set_result(result if isinstance(result, dict) else {})

    async def _answer(self, id: str, request: Message) -> None:
        """Answer a request of the program, unless it is cancelled."""
        response: Message
        try:
            result = await self._asked(request)
            response = {"subtype": "success", "request_id": id, "response": result}
        except Exception as exc:
            if not isinstance(exc, Error):
                log.exception("a request of claude failed: %s", request.get("subtype"))
            response = {"subtype": "error", "request_id": id, "error": str(exc) or type(exc).__name__}
        self.say({"type": "control_response", "response": response})


def inherited_environment(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of our programs: that of this process, without the marks of a child of another `claude`."""
    given = os.environ if environ is None else environ
    return {name: value for name, value in given.items() if name != "CLAUDECODE"}
