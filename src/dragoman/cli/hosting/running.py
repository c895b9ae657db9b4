"""Runs a server until it is told to stop, and gives the exit code of the command."""

from collections.abc import Callable, Coroutine

from ..complaint import UNREACHABLE, complain


def run_server(work: Callable[[], Coroutine[object, None, object]]) -> int:
    """Run what `work` gives; an error, also of `work` itself, is told in one line."""
    import asyncio

    from ...errors import Error
    from ...gateway.serving import CannotListen

    try:
        asyncio.run(work())
    except CannotListen as exc:
        return complain(str(exc), UNREACHABLE)
    except Error as exc:
        return complain(str(exc))
    return 0
