"""What a request means for the connection it belongs to: a message, an acknowledgement, a stream to read."""

from .. import codec
from ..envelope import read_envelope
from .accepted import MAX_STREAMS, AcceptedTransport, Request
from .addresses import LAST_EVENT, NUMBER
from .asgi_streams import Refused
from .glance import Glance, failure, glance
from .replay import read_number
from .stream import Stream


def read_message(frame: bytes) -> Glance:
    """A frame as far as its way is concerned; raises what a body that is no single message is answered with."""
    try:
        codec.check(frame)
        read_envelope(frame)
    except codec.Invalid:
        if frame.lstrip()[:1] == b"[":
            raise Refused(501, "batches", body=failure(b"", -32600, "batches are not used")) from None
        message = glance(frame)
        if not message.id and message.method is None:
            raise Refused(400, "no message", body=failure(b"", -32600, "a message is an object")) from None
        return message  # something is wrong with it, and the agent will say what
    except (codec.Malformed, UnicodeDecodeError, RecursionError) as exc:
        raise Refused(400, "no JSON", body=failure(b"", -32700, f"Parse error: {exc}")) from None
    return glance(frame)


def invalid(status: int, message: Glance, why: str) -> Refused:
    """A refusal that also answers the request, when there was one."""
    return Refused(status, why, body=failure(message.id, -32600, why) if message.is_request else None)


def acknowledge(wire: AcceptedTransport, request: Request) -> None:
    number = read_number(request.headers.get(LAST_EVENT, ""))
    if wire.resumes and number is not None:
        wire.acknowledged(number)


def is_new(wire: AcceptedTransport, request: Request) -> bool:
    """Whether a numbered message comes for the first time; a client that saw no answer sends it again."""
    number = read_number(request.headers.get(NUMBER, "").strip('"'))
    if not wire.resumes or number is None:
        return True
    if number > wire.heard.count + 1:
        raise Refused(409, "a message before this one is missing")
    is_new = number > wire.heard.count
    wire.heard.add(int(is_new), 0)
    return is_new


def taken_up(wire: AcceptedTransport, session: str | None, request: Request) -> Stream:
    """The stream a reader comes for; one that says how far it had come takes the place of the one before."""
    stream = wire.streams.get(session)
    if stream is None and len(wire.streams) >= MAX_STREAMS:
        raise Refused(429, "this connection has too many streams")
    resumed = request.headers.get(LAST_EVENT)
    number = None if resumed is None else read_number(resumed)
    if resumed is not None and (number is None or not (stream or Stream()).sent.covers(number)):
        raise Refused(410, "what came after that event is no longer kept")
    if stream is not None and stream.reader is not None:
        if number is None:
            raise Refused(409, "the stream has a reader already")
        stream.reader.cancel()
    stream = wire.attach(session)
    if number is not None:
        stream.rewind(number)
    return stream
