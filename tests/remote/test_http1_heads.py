"""Odd and malformed HTTP/1.1 requests on a raw socket: none of them carries a second request behind the first."""

import asyncio
from typing import Any

import pytest
from skipped_time import skipped_time

from dragoman.transports.remote.server.server import listening

pytestmark = pytest.mark.usefixtures("nothing_left")

HIDDEN = b"GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n"
LAST = b"GET /last HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
CHUNKED = b"POST /chunked HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"


def get(*lines: bytes, target: bytes = b"/one", version: bytes = b"HTTP/1.1") -> bytes:
    return b"\r\n".join([b"GET %b %b" % (target, version), b"Host: a", *lines, b"", b""])


def post(*lines: bytes, body: bytes = b"") -> bytes:
    return b"\r\n".join([b"POST /one HTTP/1.1", b"Host: a", *lines, b"", body])


REFUSED = {
    "length and chunks": post(b"Content-Length: 4", b"Transfer-Encoding: chunked", body=b"0\r\n\r\n" + HIDDEN),
    "chunks and length": post(b"Transfer-Encoding: chunked", b"Content-Length: 44", body=b"0\r\n\r\n" + HIDDEN),
    "two lengths": post(b"Content-Length: 0", b"Content-Length: 33", body=HIDDEN),
    "a list of lengths": post(b"Content-Length: 0, 33", body=HIDDEN),
    "a length with a sign": post(b"Content-Length: +0", body=HIDDEN),
    "a negative length": post(b"Content-Length: -1", body=HIDDEN),
    "a hexadecimal length": post(b"Content-Length: 0x0", body=HIDDEN),
    "a length with an underscore": post(b"Content-Length: 0_0", body=HIDDEN),
    "an empty length": post(b"Content-Length: ", body=HIDDEN),
    "chunks of an old version": b"POST /one HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "bare line feeds": b"GET /one HTTP/1.1\nHost: a\n\n",
    "one bare line feed": b"GET /one HTTP/1.1\r\nHost: a\nX: y\r\n\r\n",
    "a bare line feed at the end": b"GET /one HTTP/1.1\r\nHost: a\r\n\n",
    "a bare line feed behind the request line": b"GET /one HTTP/1.1\nHost: a\r\n\r\n",
    "a bare carriage return": b"GET /one HTTP/1.1\r\nHost: a\rX: y\r\n\r\n",
    "two carriage returns": b"GET /one HTTP/1.1\r\nHost: a\r\r\n\r\n",
    "a folded line": get(b"X: y", b" Content-Length: 5"),
    "a line folded with a tab": get(b"X: y", b"\tContent-Length: 5"),
    "a folded first line": b"GET /one HTTP/1.1\r\n Host: a\r\nHost: a\r\n\r\n",
    "a folded length": post(b"Content-Length:", b" 0", body=HIDDEN),
    "a space before the colon": post(b"Content-Length : 5", body=b"hello"),
    "a tab before the colon": post(b"Transfer-Encoding\t: chunked", body=b"0\r\n\r\n"),
    "no colon": get(b"Content-Length 5"),
    "an empty name": get(b": y"),
    "a zero byte in a value": get(b"X: a\x00b"),
    "a zero byte in a name": get(b"X\x00: a"),
    "a control character in a value": get(b"X: a\x01b"),
    "a vertical tab before a coding": post(b"Transfer-Encoding: \x0bchunked", body=b"0\r\n\r\n"),
    "a form feed behind a coding": post(b"Transfer-Encoding: chunked\x0c", body=b"0\r\n\r\n"),
    "no host": b"GET /one HTTP/1.1\r\n\r\n",
    "two hosts": get(b"Host: b"),
    "no version": b"GET /one\r\nHost: a\r\n\r\n",
    "another protocol": get(version=b"HTTP/9"),
    "a small protocol": get(version=b"http/1.1"),
    "two spaces": b"GET  /one HTTP/1.1\r\nHost: a\r\n\r\n",
    "a space in the target": get(target=b"/one two"),
    "an empty target": b"GET  HTTP/1.1\r\nHost: a\r\n\r\n",
    "a space before the method": b" GET /one HTTP/1.1\r\nHost: a\r\n\r\n",
    "empty lines first": b"\r\n\r\n" + get(),
    "an upgrade with a body": get(b"Upgrade: websocket", b"Connection: Upgrade", b"Content-Length: 33") + HIDDEN,
    "an upgrade in chunks": get(b"Upgrade: websocket", b"Transfer-Encoding: chunked") + b"0\r\n\r\n" + HIDDEN,
}
UNKNOWN_CODINGS = [
    *(b"identity", b"gzip, chunked", b"chunked, gzip", b"xchunked", b'"chunked"', b"chunked;a=b", b"chunked,"),
    *(b"chunked\r\nTransfer-Encoding: chunked", b"chunked\r\nTransfer-Encoding: identity"),
]

LAST_ON_ITS_SOCKET = {
    "an ordinary end": b"0\r\n\r\n" + HIDDEN,
    "a bare line feed as the end": b"0\r\n\n" + HIDDEN,
    "trailers": b"0\r\nX: y\r\n\r\n" + HIDDEN,
    "trailers with bare line feeds": b"0\r\nX: y\n\n" + HIDDEN,
    "folded trailers": b"0\r\nX: y\r\n z\r\n\r\n" + HIDDEN,
    "an extension": b"0;a=b\r\n\r\n" + HIDDEN,
    "a bare carriage return in an extension": b"0;a=\rb\r\n\r\n" + HIDDEN,
    "many zeros": b"000000\r\n\r\n" + HIDDEN,
}
BROKEN_CHUNKS = {
    "a bare line feed behind a size": b"5\nhello\r\n0\r\n\r\n",
    "a bare line feed behind a chunk": b"5\r\nhello\n0\r\n\r\n",
    "a chunk that is longer than it says": b"4\r\nhello\r\n0\r\n\r\n",
    "a size with a sign": b"+5\r\nhello\r\n0\r\n\r\n",
    "a negative size": b"-1\r\nhello\r\n0\r\n\r\n",
    "a size with a prefix": b"0x5\r\nhello\r\n0\r\n\r\n",
    "an empty size": b"\r\nhello\r\n0\r\n\r\n",
    "a size beyond measure": b"F" * 40 + b"\r\nhello\r\n0\r\n\r\n",
}


class Seen:
    """An application that notes which requests it was given whole, and answers each with its path."""

    def __init__(self) -> None:
        self.requests: list[str] = []

    async def __call__(self, scope, receive, send):
        body, more = b"", True
        while more:
            event = await receive()
            if event["type"] == "http.disconnect":
                return
            body, more = body + event["body"], event["more_body"]
        self.requests.append(f"{scope['method']} {scope['path']} {body.decode()}".strip())
        headers = [(b"content-length", b"%d" % len(scope["raw_path"]))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": scope["raw_path"]})


async def exchange(data: bytes, piece: int = 1 << 16) -> tuple[Seen, bytes]:
    """Send bytes in pieces, with a good last request behind them; what was seen, and all that was answered."""
    seen = Seen()
    async with asyncio.timeout(20), listening(seen) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        answer = b""
        try:
            for at in range(0, len(data), piece):
                writer.write(data[at : at + piece])
                await writer.drain()
                await asyncio.sleep(0)
            answer = await reader.read()
        except ConnectionError:  # it hung up before it had read everything
            pass
        finally:
            writer.close()
    return seen, answer


@pytest.mark.parametrize("name", REFUSED)
async def test_a_request_that_could_be_read_in_two_ways_is_refused(name: str) -> None:
    seen, answer = await exchange(REFUSED[name] + LAST)
    assert seen.requests == []
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1 ") == 1


async def test_such_a_request_is_not_taken_in_pieces_either() -> None:
    for data in REFUSED.values():
        seen, _ = await exchange(data + LAST, piece=5)  # the answer may be lost: we send on when it has hung up
        assert seen.requests == [], data


@pytest.mark.parametrize("coding", UNKNOWN_CODINGS)
async def test_an_unknown_transfer_coding_is_refused(coding: bytes) -> None:
    seen, answer = await exchange(post(b"Transfer-Encoding: " + coding, body=b"0\r\n\r\n" + HIDDEN) + LAST)
    assert seen.requests == []
    assert answer.startswith(b"HTTP/1.1 501 ")
    assert answer.count(b"HTTP/1.1 ") == 1


@pytest.mark.parametrize("name", LAST_ON_ITS_SOCKET)
async def test_no_request_follows_a_chunked_one_on_its_socket(name: str) -> None:
    seen, answer = await exchange(CHUNKED + b"5\r\nhello\r\n" + LAST_ON_ITS_SOCKET[name] + LAST)
    assert seen.requests == ["POST /chunked hello"]
    assert answer.startswith(b"HTTP/1.1 200 ") and b"connection: close" in answer.lower()
    assert answer.count(b"HTTP/1.1 ") == 1


@pytest.mark.parametrize("name", BROKEN_CHUNKS)
async def test_a_body_of_broken_chunks_is_refused(name: str) -> None:
    seen, answer = await exchange(CHUNKED + BROKEN_CHUNKS[name] + HIDDEN + LAST)
    assert seen.requests == []
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1 ") == 1


@pytest.mark.parametrize("piece", [1 << 16, 1])
async def test_ordinary_requests_follow_each_other_on_a_socket(piece: int) -> None:
    data = (
        get(b"X: a\tb  c ", b"Y:\xc3\xa9") + post(b"Content-Length: 5", body=b"\r\n\n\r\n") + get(target=b"/b?c=d")
    )
    seen, answer = await exchange(data + LAST, piece)
    assert seen.requests == ["GET /one", "POST /one", "GET /b", "GET /last"]
    assert answer.count(b"HTTP/1.1 200 ") == 4


async def test_the_answer_to_head_has_no_body_and_the_socket_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    seen, answer = await exchange(b"HEAD /one HTTP/1.1\r\nHost: a\r\n\r\n" + LAST)
    assert seen.requests == ["HEAD /one", "GET /last"]
    first, second, body = answer.split(b"\r\n\r\n")
    assert first.startswith(b"HTTP/1.1 200 ") and b"content-length: 4" in first.lower()
    assert second.startswith(b"HTTP/1.1 200 ")
    assert body == b"/last"
    assert not caplog.records


async def test_a_client_that_says_no_more_is_still_answered_what_it_asked() -> None:
    """As `nc -N` does: it sends its messages and half-closes."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        body = (await receive())["body"]
        await asyncio.sleep(1)  # of a clock that goes on once the end is there
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
        await send({"type": "http.response.body", "body": body})

    with skipped_time():
        async with listening(app) as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            length = b"Content-Length: 5"
            writer.write(post(length, body=b"first") + post(length, body=b"later"))
            writer.write_eof()
            answer = await reader.read()
            writer.close()
    assert answer.count(b"HTTP/1.1 200 ") == 2
    assert answer.index(b"first") < answer.index(b"later")
