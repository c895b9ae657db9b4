"""T06: everything a handler can do wrong, and what the peer is to be told of it."""

import asyncio
import concurrent.futures
import json
import os
import socket
import struct
import subprocess
import zlib
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any, NoReturn

import msgspec

from dragoman import (
    Agent,
    AgentExited,
    AuthRequired,
    ConnectionClosed,
    InvalidParams,
    LocalProtocolError,
    MethodNotFound,
    RequestTimeout,
    ResourceNotFound,
    RpcError,
    extension,
)

SECRET = "hunter2-the-planted-secret"
INTERNAL, CANCELLED = -32603, -32800


class Interrupt(KeyboardInterrupt):
    """As raised by a nervous user."""


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError(SECRET)

    __repr__ = __str__


class Slippery(BaseException):
    """Not even an Exception."""


class NotJson:
    def __repr__(self) -> str:
        return SECRET


class Stubborn(dict[str, Any]):
    """A result that cannot be looked at."""

    def __iter__(self) -> NoReturn:
        raise ValueError(SECRET)

    def items(self) -> NoReturn:
        raise ValueError(SECRET)


def throw(error: BaseException) -> NoReturn:
    raise error


def dive(depth: int = 0) -> int:
    return dive(depth + 1) + 1


def circle() -> list[Any]:
    loop: list[Any] = [SECRET]
    loop.append(loop)
    return loop


def chained() -> NoReturn:
    try:
        raise ValueError(SECRET)
    except ValueError as exc:
        raise KeyError(SECRET) from exc


def causing_itself() -> NoReturn:
    error = ValueError(SECRET)
    error.__context__ = error.__cause__ = ValueError(SECRET)
    error.__cause__.__cause__ = error
    raise error


def refused_by_peer() -> NoReturn:
    error = InvalidParams(SECRET[:7], {"peer": "said so"})
    error.method = "fs/read_text_file"
    raise error


# What the handler does, and the code the peer gets.
FAILURES: dict[str, tuple[Callable[[], Any], int]] = {
    **{
        name: (lambda kind=kind: throw(kind(SECRET)), INTERNAL)
        for name, kind in {
            "exception": Exception,
            "value": ValueError,
            "type": TypeError,
            "key": KeyError,
            "index": IndexError,
            "attribute": AttributeError,
            "assertion": AssertionError,
            "arithmetic": ArithmeticError,
            "overflow": OverflowError,
            "memory": MemoryError,
            "recursion": RecursionError,
            "runtime": RuntimeError,
            "not implemented": NotImplementedError,
            "os": OSError,
            "broken pipe": BrokenPipeError,
            "timeout": TimeoutError,
            "import": ImportError,
            "syntax": SyntaxError,
            "eof": EOFError,
            "buffer": BufferError,
            "system": SystemError,
            "warning": UserWarning,
            "stop": StopIteration,
            "stop async": StopAsyncIteration,
            "generator exit": GeneratorExit,
            "system exit": SystemExit,
            "keyboard interrupt": KeyboardInterrupt,
            "interrupt": Interrupt,
            "base exception": BaseException,
            "slippery": Slippery,
            "unprintable": Unprintable,
            "struct": struct.error,
            "zlib": zlib.error,
            "socket": socket.gaierror,
            "invalid state": asyncio.InvalidStateError,
            "queue full": asyncio.QueueFull,
            "broken executor": concurrent.futures.BrokenExecutor,
            "decimal": InvalidOperation,
            "msgspec": msgspec.ValidationError,
            "connection closed": ConnectionClosed,
            "request timeout": RequestTimeout,
            "local protocol error": LocalProtocolError,
        }.items()
    },
    "missing file": (lambda: os.stat(f"/{SECRET}"), INTERNAL),
    "unicode": (lambda: SECRET.encode() and b"\xff".decode(), INTERNAL),
    "json": (lambda: json.loads(SECRET), INTERNAL),
    "zero division": (lambda: 1 // 0, INTERNAL),
    "deep recursion": (dive, INTERNAL),
    "agent exited": (lambda: throw(AgentExited(1, SECRET)), INTERNAL),
    "called process": (lambda: throw(subprocess.CalledProcessError(1, [SECRET], SECRET, SECRET)), INTERNAL),
    "group": (lambda: throw(ExceptionGroup(SECRET, [ValueError(SECRET), KeyError(SECRET)])), INTERNAL),
    "base group": (lambda: throw(BaseExceptionGroup(SECRET, [KeyboardInterrupt(SECRET)])), INTERNAL),
    "chained": (chained, INTERNAL),
    "causing itself": (causing_itself, INTERNAL),
    "of no json type": (NotJson, INTERNAL),
    "with a member of no json type": (lambda: {"a": [NotJson()]}, INTERNAL),
    "in a circle": (circle, INTERNAL),
    "a stubborn mapping": (lambda: throw(Stubborn.__iter__(Stubborn())), INTERNAL),
    "a key of no json type": (lambda: {(1, 2): SECRET}, INTERNAL),
    "a lock": (lambda: {"lock": asyncio.Lock(), "secret": SECRET}, INTERNAL),
    "cancelled": (lambda: throw(asyncio.CancelledError(SECRET)), CANCELLED),
    "refused by the peer": (refused_by_peer, INTERNAL),
    # What the author means to say is said, and no more.
    "rpc error": (lambda: throw(RpcError("told", code=-7)), -7),
    "method not found": (lambda: throw(MethodNotFound("told")), -32601),
    "invalid params": (lambda: throw(InvalidParams("told", {"field": "x"})), -32602),
    "authentication": (lambda: throw(AuthRequired("told")), -32000),
    "not found": (lambda: throw(ResourceNotFound("told", Decimal("1.5"))), -32002),
    "error with data of no json type": (lambda: throw(InvalidParams("told", {"x": NotJson()})), -32602),
    "error with data in a circle": (lambda: throw(InvalidParams("told", circle())), -32602),
    "error with an exception for its words": (lambda: throw(InvalidParams(ValueError("told"))), -32602),
    "error with nothing for its words": (lambda: throw(InvalidParams(None)), -32602),
    "error with a surrogate": (lambda: throw(InvalidParams("told \ud800", "\udfff")), -32602),
}
FIT = frozenset({"refused by the peer"})  # a failure whose words are the peer's own, so it may see them again
TOLD = frozenset(name for name, (_, code) in FAILURES.items() if code not in (INTERNAL, CANCELLED))


class Failing(Agent):
    """Fails as it is told, in a request, in a notification, in a turn."""

    @extension("_fail")
    async def fail(self, params: Any) -> Any:
        return FAILURES[params["how"]][0]()

    @extension("_fail_later")
    async def fail_later(self, params: Any) -> Any:
        await asyncio.sleep(0)
        return FAILURES[params["how"]][0]()

    @extension("_fail_silently")
    def fail_silently(self, params: Any) -> None:
        FAILURES[params["how"]][0]()

    async def answer(self, turn: Any) -> None:
        FAILURES[turn.text][0]()

    @extension("_ping")
    async def pong(self, params: Any) -> Any:
        return {"pong": True}
