"""Read a request to a connection: a message, an acknowledgement, or the request for a stream."""

from .... import codec
from ....envelope import read_envelope
from ....framing import check
from ..addresses import GENERATION, LAST_EVENT, NUMBER
from ..replay import OutOfOrder, read_number
from ..routing import MessageHead, failure, head_of
from .accepted import AcceptedTransport, WebRequest
from .answers import Receive, RequestRefused
from .stream import Stream, StreamClaim

MAX_BODIES = 96 * 1024 * 1024  # bytes of incomplete requests of all clients together


class Bodies:
    """Reads the bodies of requests: each has a limit, and all incomplete ones share another."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._received = 0  # bytes of incomplete bodies

    async def read(self, receive: Receive) -> bytes:
        """Read the body of one request; raises RequestRefused if it is too large or does not end."""
        # one block of memory: thousands of small ones would stay with the process after they are freed
        body = bytearray()
        try:
            while True:
                event = await receive()
                if event["type"] == "http.disconnect":
                    raise RequestRefused(499, "the client hung up")
                part = event.get("body", b"")
                body += part
                self._received += len(part)
                if len(body) > self._limit:
                    raise RequestRefused(413, f"a message may have {self._limit} bytes at most")
                if self._received > MAX_BODIES:
                    raise RequestRefused(
                        503, "too many bytes are being received at once; try again", {"retry-after": "1"}
                    )
                if not event.get("more_body"):
                    return bytes(body)
        finally:
            self._received -= len(body)


def read_message(frame: bytes) -> MessageHead:
    """The head of a frame; raises RequestRefused for a body that is not a single message."""
    try:
        check(frame)
        read_envelope(frame)
    except codec.Invalid:
        if frame.lstrip()[:1] == b"[":
            raise RequestRefused(
                501, "batches", body=failure(b"", -32600, "a batch is not accepted: send each message by itself")
            ) from None
        message = head_of(frame)
        if not message.id and message.method is None:
            raise RequestRefused(
                400, "no message", body=failure(b"", -32600, "a message must be an object")
            ) from None
        return message  # it is invalid, and the agent will answer why
    except (codec.Malformed, UnicodeDecodeError, RecursionError) as exc:
        raise RequestRefused(400, "no JSON", body=failure(b"", -32700, f"Parse error: {exc}")) from None
    return head_of(frame)


def invalid(status: int, message: MessageHead, why: str) -> RequestRefused:
    """A refusal that also answers the request, if the message was one."""
    return RequestRefused(status, why, body=failure(message.id, -32600, why) if message.is_request else None)


def acknowledge(wire: AcceptedTransport, request: WebRequest) -> None:
    number = read_number(request.headers.get(LAST_EVENT, ""))
    if wire.resumes and number is not None:
        wire.acknowledged(number)


def is_new(wire: AcceptedTransport, request: WebRequest) -> bool:
    """Whether a numbered message arrives for the first time; a client that got no answer sends it again."""
    if not wire.resumes or (number := read_number(request.headers.get(NUMBER, "").strip('"'))) is None:
        return True
    try:
        return wire.heard.admit(number)
    except OutOfOrder:
        raise RequestRefused(409, "a message before this one is missing") from None


def taken_up(wire: AcceptedTransport, session: str | None, request: WebRequest) -> StreamClaim:
    """The reader of a stream; one that states its last number replaces the previous one.

    A client that resumes numbers its readers, so that a delayed request cannot replace a newer one.
    """
    stream = wire.streams.get(session)
    if not wire.has_room(session):
        raise RequestRefused(429, "this connection has too many streams")
    resumed = request.headers.get(LAST_EVENT)
    number = None if resumed is None else read_number(resumed)
    if resumed is not None and (number is None or not (stream or Stream()).covers(number)):
        raise RequestRefused(410, "the events after that one are no longer kept")
    newest = stream.generation if stream else 0
    generation = read_number(request.headers.get(GENERATION, ""))
    is_late = generation is not None and generation <= newest
    if is_late or (stream is not None and stream.reader is not None and number is None):
        raise RequestRefused(409, "the stream has a reader already")
    reader = wire.attach(session, generation or newest)
    if number is not None:
        wire.rewind(reader, number)
    return reader
