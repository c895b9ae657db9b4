"""A socket that rests may have news that the event loop has not come to: it is looked at when it is used again."""

import asyncio
import contextlib
import json
import select
import socket
import threading

import pytest

from dragoman.transports.remote import dial_http

pytestmark = pytest.mark.usefixtures("nothing_left")

LIMIT = 30  # seconds


class ForgingServer(threading.Thread):
    """Answers POSTs on plain sockets, in a thread, so that it speaks while the client's event loop does not turn.

    Once it is told to, it writes an answer that nobody asked for to its first socket.
    """

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.go, self.forged = threading.Event(), threading.Event()
        self.was_asked = False  # before it forged an answer
        self.start()

    def run(self) -> None:
        first = True
        while True:
            try:
                taken, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(taken, first), daemon=True).start()
            first = False

    def _serve(self, taken: socket.socket, is_first: bool) -> None:
        with taken, taken.makefile("rb") as reading, contextlib.suppress(OSError):  # the client may reset it
            while (request := self._read(reading)) is not None:
                taken.sendall(answer(request["id"], {"protocolVersion": 1, "says": "asked"}))
                if is_first and self.go.wait(LIMIT):
                    self.was_asked = bool(select.select([taken], [], [], 0)[0])
                    taken.sendall(answer(2, {"says": "forged"}))
                    self.forged.set()
                    is_first = False

    @staticmethod
    def _read(reading):
        length = 0
        while (line := reading.readline().strip().lower()) != b"":
            if line.startswith(b"content-length:"):
                length = int(line.partition(b":")[2])
        return json.loads(reading.read(length)) if length else None


def answer(id, result):
    body = json.dumps({"jsonrpc": "2.0", "id": id, "result": result}).encode()
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


async def said_after(turns: int) -> tuple[str, bool]:
    """What answers a request, where another answer arrives so many turns of the loop after it was made; and whether
    the request was on its way by then, so that nobody could tell that answer from its own.
    """
    server, answers = ForgingServer(), asyncio.Queue()
    wire = await dial_http(f"http://127.0.0.1:{server.listener.getsockname()[1]}/acp", version="1.1")
    try:
        wire.listen(lambda frames: [answers.put_nowait(json.loads(frame)) for frame in frames], lambda: None)
        wire.send([b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}'])
        assert (await answers.get())["id"] == 1
        await asyncio.sleep(0)  # the socket rests
        wire.send([b'{"jsonrpc":"2.0","id":2,"method":"_ask","params":{}}'])
        for _ in range(turns):
            await asyncio.sleep(0)
        server.go.set()
        assert server.forged.wait(LIMIT)  # the loop does not turn: what was written waits in the system
        return (await answers.get())["result"]["says"], server.was_asked
    finally:
        await wire.close()
        server.listener.close()


async def test_an_answer_that_waits_unread_on_a_resting_socket_is_no_answer_to_what_is_asked_next() -> None:
    async with asyncio.timeout(LIMIT):
        said = [await said_after(turns) for turns in range(12)]
    assert ("asked", False) in said
    assert ("forged", False) not in said
