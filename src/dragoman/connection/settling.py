"""Hands the reply to a call to the future that waits for it."""

import asyncio
from collections.abc import Callable
from typing import Any

from ..events import Reply


def settling(
    answer: "asyncio.Future[Any]", error_as: Callable[[Exception], Exception] | None = None
) -> Callable[[Reply], None]:
    """A function that settles a future with a reply; `error_as` converts errors."""

    def settle(reply: Reply) -> None:
        if answer.done():
            return
        if reply.error is None:
            answer.set_result(reply.result)
        else:
            answer.set_exception(error_as(reply.error) if error_as else reply.error)

    return settle
