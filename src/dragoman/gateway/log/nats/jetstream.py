"""The few requests to NATS JetStream that the engine uses, each with a limited wait and one kind of failure.

Leader elections, reconnections and slow servers are normal, so a request is repeated until `PATIENCE` is over.  A
message is published with an id, so that the server stores it once however often it is sent.
"""

import asyncio
import contextlib
import logging
import re
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar
from urllib.parse import parse_qs, quote, unquote, urlsplit, urlunsplit

import msgspec
import nats
import nats.errors
from msgspec import Struct
from nats.aio.client import Client as Connection
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from ....errors import Error
from ...workers import owned
from ..engine import CALL_SECONDS, EngineFailure
from .subjects import Subjects

T = TypeVar("T")

log = logging.getLogger("dragoman")

PATIENCE = 12.0  # seconds for a request with all its attempts: electing a leader takes up to nine
STEP = 3.0  # for one try
PAUSE = 0.2
DIAL = 10.0
PAGE_BYTES = 1024 * 1024
PAGE_MESSAGES = 256
DUPLICATES = 60.0  # seconds for which the servers recognise a message by its id
OLDEST = (2, 11)  # older servers have no messages that expire, and lost streams in crashes
WRONG_SEQUENCE = (10071, 10164)
NO_MESSAGE = 10037
LAST = "Dragoman-Last"  # header: the number of the last record up to the end of a message
EPOCH = "Dragoman-Epoch"  # header: the epoch of the lease under which it was written
SESSION = "Dragoman-Session"  # that a request is about
FAILED = "Dragoman-Failed"  # says that a request was not answered


class WrongSequence(Exception):
    """Another process has written under the subject since it was read."""


class StoredMessage(Struct, frozen=True):
    """A stored message."""

    subject: str
    sequence: int
    data: bytes
    headers: Mapping[str, str] = {}

    @property
    def last(self) -> int:
        return int(self.headers.get(LAST, 0))

    @property
    def epoch(self) -> int:
        return int(self.headers.get(EPOCH, 0))


class JetStream:
    """A connection to NATS, and our streams there."""

    def __init__(self, connection: Connection, prefix: str, replicas: int) -> None:
        self.subjects = Subjects(prefix)
        self._connection, self._replicas = connection, replicas

    @staticmethod
    async def connect(url: str) -> "JetStream":
        """Connect, and create missing streams: `nats://HOST[:PORT][,HOST…][?replicas=3&prefix=NAME]`."""
        address = urlsplit(url)
        asked = parse_qs(address.query)
        prefix, replicas = asked.get("prefix", ["dragoman"])[-1], asked.get("replicas", ["1"])[-1]
        if not re.fullmatch(r"[A-Za-z0-9_-]+", prefix) or replicas not in ("1", "3", "5"):
            raise Error("an engine on NATS takes ?prefix=WORD and ?replicas=1, 3 or 5")
        servers = [urlunsplit((address.scheme, server, "", "", "")) for server in address.netloc.split(",")]
        try:
            connection = await nats.connect(
                servers,
                name="dragoman gateway",
                connect_timeout=int(DIAL),
                max_reconnect_attempts=-1,
                reconnect_time_wait=1,
                allow_reconnect=True,
                error_cb=_note,
                disconnected_cb=_tell_away,
                reconnected_cb=_tell_back,
                ping_interval=10,
            )
        except (OSError, nats.errors.Error, TimeoutError) as exc:
            raise EngineFailure(f"no NATS server answers at {', '.join(servers)}: {exc}") from None
        stream = JetStream(connection, prefix, int(replicas))
        try:
            stream._check_version()
            await stream._prepare()
        except BaseException:
            await connection.close()
            raise
        return stream

    async def close(self) -> None:
        with contextlib.suppress(nats.errors.Error, TimeoutError):
            await self._connection.close()

    def _check_version(self) -> None:
        version = self._connection.connected_server_version
        if (version.major, version.minor) < OLDEST:
            wanted = ".".join(map(str, OLDEST))
            raise EngineFailure(f"the NATS server is {version}; a gateway needs {wanted} or newer")

    async def _prepare(self) -> None:
        prefix = self.subjects.prefix
        common: dict[str, object] = {
            "num_replicas": self._replicas,
            "storage": "file",
            "allow_direct": True,
            "allow_msg_ttl": True,
            "duplicate_window": int(DUPLICATES * 1e9),
        }
        tail = {"src": f"{prefix}.log.*", "dest": f"{prefix}.tail.{{{{wildcard(1)}}}}", "headers_only": True}
        await self._make_stream("log", {**common, "republish": tail})
        for kind in ("lease", "fact", "blob"):
            await self._make_stream(kind, {**common, "max_msgs_per_subject": 1})

    async def _make_stream(self, kind: str, settings: Mapping[str, object]) -> None:
        name = self._stream(kind)
        subjects = [f"{self.subjects.prefix}.{kind}.>"]
        asked = {"name": name, "subjects": subjects, "retention": "limits", "discard": "new", **settings}
        try:
            await self._api(f"STREAM.CREATE.{name}", asked, _Done)
        except _Refused as exc:
            if exc.code != 10058:  # it exists with other settings, which the operator has chosen
                raise EngineFailure(f"NATS does not make the stream {name}: {exc}") from None

    def _stream(self, kind: str) -> str:
        return f"{self.subjects.prefix}_{kind}"

    # One message

    async def publish(
        self,
        subject: str,
        data: bytes,
        *,
        expected: int | None = None,
        seconds: float | None = None,
        headers: Mapping[str, str] = {},
    ) -> int:
        """Store a message if the last one under its subject is still the expected one; returns its number."""
        sent = {"Nats-Msg-Id": secrets.token_hex(12), **headers}
        if expected is not None:
            sent["Nats-Expected-Last-Subject-Sequence"] = str(expected)
        if seconds is not None:
            sent["Nats-TTL"] = f"{max(1, round(seconds))}s"
        try:
            stored = await self._persist(lambda: self._answered(subject, data, _Stored, sent))
        except _Refused as exc:
            if exc.code in WRONG_SEQUENCE:
                raise WrongSequence from None
            raise EngineFailure(f"NATS does not store: {exc}") from None
        return stored.seq

    async def last(self, kind: str, subject: str) -> StoredMessage | None:
        """The last message under a subject, from the leader."""
        return await self._message(kind, {"last_by_subj": subject})

    async def behind(self, kind: str, subject: str, sequence: int) -> StoredMessage | None:
        """The first message under a subject from a number on, from the leader."""
        return await self._message(kind, {"seq": max(1, sequence), "next_by_subj": subject})

    async def _message(self, kind: str, wanted: Mapping[str, object]) -> StoredMessage | None:
        try:
            found = (await self._api(f"STREAM.MSG.GET.{self._stream(kind)}", wanted, _Found)).message
        except _Refused as exc:
            if exc.code == NO_MESSAGE:
                return None
            raise EngineFailure(f"NATS does not read: {exc}") from None
        return StoredMessage(found.subject, found.seq, found.data, _headers(found.hdrs))

    async def purge(self, kind: str, subject: str) -> None:
        """Delete all messages under a subject for good."""
        try:
            await self._api(f"STREAM.PURGE.{self._stream(kind)}", {"filter": subject}, _Done)
        except _Refused as exc:
            raise EngineFailure(f"NATS does not delete: {exc}") from None

    # Many messages

    async def page(self, kind: str, subject: str, sequence: int) -> tuple[list[StoredMessage], bool]:
        """Messages under a subject from a number on, from any server, and whether there are more."""
        wanted = {"seq": max(1, sequence), "next_by_subj": subject, "batch": PAGE_MESSAGES, "max_bytes": PAGE_BYTES}
        return await self._persist(lambda: self._gathered(kind, wanted))

    async def values(self, kind: str, subjects: Sequence[str]) -> list[StoredMessage]:
        """The last message under each of at most a thousand subjects, from any server."""
        found, _ = await self._persist(lambda: self._gathered(kind, {"multi_last": list(subjects)}))
        return found

    async def _gathered(self, kind: str, wanted: Mapping[str, object]) -> tuple[list[StoredMessage], bool]:
        found: list[StoredMessage] = []
        inbox = self._connection.new_inbox()
        answers = await self._connection.subscribe(inbox)
        try:
            subject = f"$JS.API.DIRECT.GET.{self._stream(kind)}"
            await self._connection.publish(subject, msgspec.json.encode(wanted), reply=inbox)
            while True:
                answer = await answers.next_msg(timeout=STEP)
                headers = {str(name): value for name, value in (answer.headers or {}).items()}
                match headers.get("Status"):
                    case None:
                        name, number = headers["Nats-Subject"], int(headers["Nats-Sequence"])
                        found.append(StoredMessage(name, number, answer.data, headers))
                    case "204":
                        return found, headers.get("Nats-Num-Pending", "0") != "0"
                    case "404":
                        return found, False
                    case "503":
                        raise nats.errors.NoRespondersError
                    case status:
                        raise EngineFailure(f"NATS does not read: {status} {headers.get('Description', '')}")
        finally:
            with contextlib.suppress(nats.errors.Error):
                await answers.unsubscribe()

    async def subjects_of(self, kind: str, pattern: str) -> list[str]:
        """All subjects with messages, from the leader."""
        found: list[str] = []
        while True:
            asked = {"subjects_filter": pattern, "offset": len(found)}
            try:
                answer = await self._api(f"STREAM.INFO.{self._stream(kind)}", asked, _Info)
            except _Refused as exc:
                raise EngineFailure(f"NATS does not list: {exc}") from None
            page = answer.state.subjects or {}
            found += page
            if not page or len(found) >= answer.total:
                return found

    async def follow(self, subject: str, heard: Callable[[], None]) -> Callable[[], Awaitable[None]]:
        """Call a function whenever a message is published under a subject; returns a function that ends it."""

        async def hear(_: Msg) -> None:
            heard()

        return (await self._connection.subscribe(subject, cb=hear)).unsubscribe

    async def answer(
        self, subject: str, give: Callable[[str, bytes], Awaitable[bytes | None]]
    ) -> Callable[[], Awaitable[None]]:
        """Answer requests under a subject, concurrently; None means a failed one.  Returns how to end it."""
        running: set[asyncio.Task[None]] = set()

        async def reply(asked: Msg) -> None:
            said = await give(unquote((asked.headers or {}).get(SESSION, "")), asked.data)
            headers = {FAILED: "1"} if said is None else None
            with contextlib.suppress(nats.errors.Error):
                await self._connection.publish(asked.reply, said or b"", headers=headers)

        async def hear(asked: Msg) -> None:
            task = owned(reply(asked), "answer to a gateway", lambda exc: None)  # who asked waits no longer than so
            running.add(task)
            task.add_done_callback(running.discard)

        async def subscribe() -> Subscription:
            found = await self._connection.subscribe(subject, cb=hear)
            try:
                await self._connection.flush()  # from now on the server knows
            except BaseException:
                await found.unsubscribe()
                raise
            return found

        asked = await self._persist(subscribe)

        async def end() -> None:
            with contextlib.suppress(nats.errors.Error):
                await asked.unsubscribe()
            for task in list(running):
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

        return end

    async def ask(self, subject: str, session: str, request: bytes) -> bytes | None:
        """The answer to a request under a subject; None if nobody answers or the request failed."""
        try:
            said = await self._connection.request(
                subject, request, timeout=CALL_SECONDS + STEP, headers={SESSION: quote(session)}
            )
        except (nats.errors.Error, TimeoutError, OSError):
            return None
        return None if (said.headers or {}).get(FAILED) else said.data

    # Requests

    async def _api(self, name: str, asked: Mapping[str, object], answer: type[T]) -> T:
        data = msgspec.json.encode(asked)
        return await self._persist(lambda: self._answered(f"$JS.API.{name}", data, answer))

    async def _answered(
        self, subject: str, data: bytes, answer: type[T], headers: dict[str, str] | None = None
    ) -> T:
        said = (await self._connection.request(subject, data, timeout=STEP, headers=headers)).data
        if error := msgspec.json.decode(said, type=_Failed).error:
            if error.code == 503:  # it has no leader at the moment
                raise nats.errors.NoRespondersError
            raise _Refused(error.err_code, error.description)
        return msgspec.json.decode(said, type=answer)

    async def _persist(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Repeat a request while the servers cannot answer."""
        loop = asyncio.get_running_loop()
        until = loop.time() + PATIENCE
        while True:
            try:
                return await attempt()
            except (nats.errors.Error, TimeoutError, OSError) as exc:
                if loop.time() > until or self._connection.is_closed:
                    raise EngineFailure(f"NATS does not answer: {exc or type(exc).__name__}") from None
                await asyncio.sleep(PAUSE)


class _Reason(Struct):
    code: int = 0
    err_code: int = 0
    description: str = "it does not say why"


class _Failed(Struct):
    error: _Reason | None = None


class _Done(Struct):
    """The error in an answer, if any."""


class _Stored(Struct):
    seq: int


class _Kept(Struct):
    subject: str
    seq: int
    data: bytes = b""
    hdrs: bytes = b""


class _Found(Struct):
    message: _Kept


class _State(Struct):
    subjects: dict[str, int] | None = None


class _Info(Struct):
    state: _State
    total: int = 0


class _Refused(Exception):
    """A server refused a request; the text says why."""

    def __init__(self, code: int, words: str) -> None:
        super().__init__(words)
        self.code = code


def _headers(data: bytes) -> dict[str, str]:
    """The headers of a stored message: a line with their version, then one line each."""
    lines = data.decode(errors="replace").split("\r\n")[1:]
    return {name: value.strip() for name, colon, value in (line.partition(":") for line in lines) if colon}


async def _note(exc: Exception) -> None:
    log.debug("NATS: %s", exc or type(exc).__name__)


async def _tell_away() -> None:
    log.warning("NATS is away; what has to be written waits %g s for it", PATIENCE)


async def _tell_back() -> None:
    log.warning("NATS is back")
